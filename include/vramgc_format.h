/* vramgc_format.h: the layout of the statistics file, the contract between the library, which
 * keeps it true at every moment, and `vramgc report`, which reads it, perhaps from a process that
 * still runs or was killed. Once a version is released, every change of it (a new figure in
 * stats.def too) needs a new VRAMGC_FORMAT_VERSION; a reader takes no other. Nothing is released
 * yet: until then files of another build are told by their file_bytes, which most changes change.
 *
 * The file is a shared mapping of one `struct vramgc_file`. All integers are in the byte order of
 * the machine. Times named _ns are nanoseconds of CLOCK_MONOTONIC unless said otherwise; sizes
 * named _bytes are bytes. Texts end with a zero byte; longer ones are cut. Figures are single
 * aligned 64-bit words that the writer stores atomically: a reader may see one figure newer than
 * another, but never half a figure. Rings: `written` counts entries ever begun; entry i lives in
 * slot i % capacity and is complete when its `sequence` equals i + 1. While a slot is written its
 * sequence is VRAMGC_BEING_WRITTEN. */
#ifndef VRAMGC_FORMAT_H
#define VRAMGC_FORMAT_H

#include <stdint.h>

#define VRAMGC_MAGIC          "VRAMGC1\n"
#define VRAMGC_FORMAT_VERSION 1
#define VRAMGC_BEING_WRITTEN  UINT64_MAX
#define VRAMGC_ANSWERED       ((uint64_t)1 << 32) /* of `asking` */
#define VRAMGC_MAX_DEVICES    16
#define VRAMGC_MAX_HOOKS      224
#define VRAMGC_MAX_ACTIONS    1024
#define VRAMGC_MAX_REFUSALS   256
#define VRAMGC_MAX_MARKS      256
#define VRAMGC_MAX_JOBS       1024
#define VRAMGC_MAX_SAMPLES    1024
#define VRAMGC_MAX_SETTINGS   32
#define VRAMGC_MAX_FRAMES     32
#define VRAMGC_MAX_STACKS     256
#define VRAMGC_MAX_FLOORS     64
#define VRAMGC_MAX_NEIGHBOURS 8
#define VRAMGC_MAX_SITES      1024
#define VRAMGC_MAX_CALLS      4096
#define VRAMGC_MAX_DEPTH      256 /* of calls in each other */
#define VRAMGC_MAX_OWNERS     64
#define VRAMGC_MAX_LIBRARIES  16
#define VRAMGC_MAX_WHO        256
#define VRAMGC_WHO_OWNERS     40

struct vramgc_gauge {
    uint64_t current;
    uint64_t peak;
};

struct vramgc_device_stats {
#define DEVICE_GAUGE(name, unit, help) struct vramgc_gauge name;
#define DEVICE_TOTAL(name, unit, help) uint64_t name;
#define PROCESS_TOTAL(name, unit, help)
#include "stats.def"
};

struct vramgc_process_stats {
#define DEVICE_GAUGE(name, unit, help)
#define DEVICE_TOTAL(name, unit, help)
#define PROCESS_TOTAL(name, unit, help) uint64_t name;
#include "stats.def"
};

/* One point of a device's timeline: from then until the next point the highest figures, of two the
 * lowest at a look, too, and of live memory the sum. When all slots are used, two points become one
 * each and step_ns doubles, so a run of any length keeps between 512 and 1024 points. */
struct vramgc_sample {
    uint64_t time_ns; /* since the start of the process's record */
    uint64_t held_bytes;
    uint64_t reserved_bytes;
    uint64_t allocated_bytes; /* with memory behind it */
    uint64_t used_bytes;
    uint64_t others_bytes; /* at the moment of used_bytes */
    uint64_t held_low_bytes, allocated_low_bytes;
    uint64_t allocated_ms_sum_kib, ms; /* KiB times milliseconds; of how many */
};

/* How low live memory fell each time that more than a little had been freed: what stays after a
 * job. Each of the floors is the lowest of so many; when all slots are used, two become one. */
struct vramgc_floors {
    uint64_t turns; /* how often so much had been freed, and live memory rose again */
    uint64_t merged;
    uint64_t count;
    uint64_t bytes[VRAMGC_MAX_FLOORS];
};

struct vramgc_neighbour {
    uint64_t pid;
    uint64_t bytes;
    uint64_t started_here; /* 1: by this process, or by one that it started */
    char name[48];         /* empty: not known, as across the border of a container */
};

/* The card of the machine that had most free, this device aside. */
struct vramgc_other_card {
    uint64_t time_ns; /* since the start of the record; 0: never asked, or there is none */
    uint64_t free_bytes;
    uint64_t number; /* as nvidia-smi counts: by PCI bus */
    char name[64];
};

/* Who else had memory of the device, as NVML told it when memory was last refused; in order of
 * size. */
struct vramgc_neighbours {
    uint64_t time_ns;   /* since the start of the record; 0: never asked, or no answer */
    uint64_t own_bytes; /* of this process, its context included; 0: not told */
    uint64_t count;
    struct vramgc_neighbour list[VRAMGC_MAX_NEIGHBOURS];
};

/* The program that gave this one idle memory, the latest; how much came in all: peer_bytes. */
struct vramgc_giver {
    uint64_t pid;     /* 0: none did */
    uint64_t several; /* 1: others did before */
    char name[48];
};

/* Those to whom most belongs of some amount of live memory, the largest first; what is not theirs
 * belongs to smaller ones, or has no name. */
struct vramgc_owner {
    uint32_t site; /* index into sites[]; of a list of calls: into calls[] */
    uint32_t unused;
    uint64_t bytes;
    uint64_t blocks; /* of those that were looked at */
};

struct vramgc_owners {
    uint64_t live_bytes; /* of everybody */
    uint64_t count;
    struct vramgc_owner list[VRAMGC_MAX_OWNERS];
};

/* Whose live memory was at its highest between two looks. When all slots are used, who_step_ns
 * doubles, and of the points within one step the highest stays. */
struct vramgc_who {
    uint64_t time_ns; /* of the later look, since the start of the record */
    uint64_t live_bytes;
    uint32_t works; /* 1 + index into sites[]: who took memory last; 0: not known */
    uint32_t count;
    uint32_t kib[VRAMGC_WHO_OWNERS]; /* the largest first, as in struct vramgc_owners */
    uint16_t sites[VRAMGC_WHO_OWNERS];
};

/* The device's figures at the latest moment at which the program had rested for 50 ms, or, if
 * it worked until its end, when Python was about to end: later it has freed most. */
struct vramgc_rest {
    uint64_t time_ns; /* since the start of the record; 0: there was none */
    uint64_t of_end;  /* 1: of Python's end */
    struct vramgc_device_stats stats;
    struct vramgc_gauge of_libraries[VRAMGC_MAX_LIBRARIES];
};

struct vramgc_device {
    uint64_t present; /* 1 once anything was recorded for the device */
    uint64_t total_bytes;
    char name[64];
    char bus_id[16];
    uint32_t compute_major;
    uint32_t compute_minor;
    struct vramgc_device_stats stats;
    struct vramgc_floors floors;
    struct vramgc_neighbours neighbours;
    struct vramgc_giver giver;
    struct vramgc_other_card other_card; /* as NVML told it when memory was last refused */
    struct vramgc_owners owners_at_peak; /* of live memory */
    struct vramgc_owners owners_at_oom;  /* the latest; nothing is said where there was none */
    struct vramgc_owners owners_grown;   /* by how much more stays with each than earlier */
    struct vramgc_owners calls_at_peak;  /* the same as owners_at_peak, by call */
    struct vramgc_owners calls_at_oom;
    struct vramgc_gauge of_libraries[VRAMGC_MAX_LIBRARIES]; /* of other_bytes, by file.libraries */
    struct vramgc_rest rest;
    uint64_t worked_ns; /* when a block event was last seen to have been, since the start */
    uint64_t who_count;
    uint64_t who_step_ns;
    struct vramgc_who who[VRAMGC_MAX_WHO];
    uint64_t sample_count;
    uint64_t sample_step_ns;
    struct vramgc_sample samples[VRAMGC_MAX_SAMPLES];
};

enum vramgc_action_kind {
    VRAMGC_ACTION_NONE,
    VRAMGC_ACTION_SOFT_OOM, /* one cudaMalloc answered with out of memory */
    VRAMGC_ACTION_FLUSH,    /* PyTorch's cache emptied from our own thread */
    VRAMGC_ACTION_TRIM,     /* stream-ordered pools trimmed */
    VRAMGC_ACTION_PAGES,    /* idle pages of PyTorch's segments unmapped and given back */
    VRAMGC_ACTION_KINDS
};

enum vramgc_reason {
    VRAMGC_REASON_NONE,
    VRAMGC_REASON_THRESHOLD, /* utilisation crossed the threshold */
    VRAMGC_REASON_LOWVRAM,   /* lowvram, and the program rests */
    VRAMGC_REASON_REQUEST,   /* asked for through the C API */
    VRAMGC_REASON_REFUSED,   /* the driver refused a request, which was then made again */
    VRAMGC_REASON_PEER,      /* another program of the user lacked memory */
    VRAMGC_REASONS
};

/* One reclaim, done or (observe) only recorded. While idle pages go back others may be taken: then
 * after_bytes is what lies behind PyTorch's segments at its end, and before_bytes is that and all
 * that went back. */
struct vramgc_action {
    uint64_t sequence;
    uint64_t time_ns; /* since the start of the record */
    uint64_t took_ns;
    uint64_t before_bytes; /* reserved by PyTorch (trim: by the pools) before */
    uint64_t after_bytes;
    uint64_t net_bytes;     /* how much less this process held at the end than at the beginning */
    uint64_t held_bytes;    /* by this process at the end; observed: it would be */
    uint64_t used_bytes;    /* of the device, by everybody, when decided */
    uint64_t request_bytes; /* the request that led to it, 0 if none */
    uint32_t kind;          /* enum vramgc_action_kind */
    uint32_t reason;        /* enum vramgc_reason */
    uint32_t device;
    uint32_t observed;   /* 1: mode observe, nothing was done */
    char function[64];   /* Python function then running, where it could be asked for */
    char phase[24];      /* and what it was part of */
    uint64_t asker;      /* reason PEER: the process that lacked memory */
    char asker_name[48]; /* its name; reason REFUSED: the library of this process that lacked it */
    uint64_t until_ns; /* pages: when the latest of them had gone, since the start of the record */
};

/* Why memory was refused. The library writes what it sees; the reader finds out the rest. */
enum vramgc_cause {
#define CAUSE(name, ...) VRAMGC_CAUSE_##name,
#include "causes.def"
    VRAMGC_CAUSES,
    VRAMGC_CAUSES_SEEN = VRAMGC_CAUSE_HOST + 1
};

/* An out-of-memory error of PyTorch's, or ours in its place, may come of a refusal: this tells. The
 * work went on where the thread asked for its next block at once, with the one before still live,
 * no cache emptied, and not in an `except` of Python's for this error: whoever caught it did
 * without, as PyTorch does without a convolution's workspace. SEEMS_ON: the same, but Python could
 * not be asked. Then it was as with others of the same kind, where one of them is known. */
enum vramgc_reported { VRAMGC_NOT_REPORTED, VRAMGC_REPORTED, VRAMGC_WENT_ON, VRAMGC_SEEMS_ON };

/* One allocation that the driver refused, or for which PyTorch was out of memory without asking
 * (cause LIMIT). PyTorch asks again when it has emptied its cache: that is
 * the same request, and what was free, idle, ... is how it was when it was refused last. In an
 * expandable segment PyTorch asks page by page: then the request is one page and the cause unknown
 * until the block it was for has come, or an error of PyTorch's; from then on the request is the
 * block. */
struct vramgc_refusal {
    uint64_t sequence;
    uint64_t time_ns;
    uint64_t request_bytes;
    uint64_t free_bytes; /* of the device, before pages were taken for the same block */
    uint64_t idle_bytes; /* whole idle pages in PyTorch's segments, and what a pool keeps */
    uint64_t holes;      /* runs of free bytes inside PyTorch's segments (see largest_hole_bytes) */
    uint64_t hole_bytes; /* in all of them */
    uint64_t largest_hole_bytes;
    uint64_t allocated_bytes; /* with memory behind it */
    uint64_t reserved_bytes;
    uint64_t held_bytes;    /* by this process; the card is free, held, and what others have */
    uint64_t other_bytes;   /* of held_bytes: not PyTorch's allocator's */
    uint64_t step_bytes;    /* of other_bytes: kept for the tensors of a step (vmm.h) */
    uint64_t kept_bytes;    /* segments and mapped pages without an active block */
    uint64_t total_bytes;   /* of the device; of the host for cause HOST, as free_bytes */
    uint64_t limited_bytes; /* free on the card, but kept by VRAMGC_HEADROOM or VRAMGC_CAP */
    uint64_t turns;         /* the device's floors then: what came later was after it */
    uint32_t device;
    uint32_t cause;    /* enum vramgc_cause, as it was seen */
    uint32_t granted;  /* 1: the caller asked again and got it */
    uint32_t hook;     /* index into hooks[] */
    uint32_t stack;    /* 1 + index into stacks[], 0: none */
    uint32_t reported; /* enum vramgc_reported */
    uint32_t site;     /* 1 + index into sites[], 0: not known */
    uint32_t library;  /* index into libraries[]: whose most of other_bytes is, 0: nobody's */
    uint32_t recorded; /* 1: autograd recorded this thread's work */
    uint32_t thread;   /* which asked, as Linux numbers it; 0: not told */
};

struct vramgc_mark {
    uint64_t sequence;
    uint64_t time_ns;
    char label[48];
};

/* The program's work between two rests on one device, if live memory rose and fell by more than a
 * little meanwhile. When it began and how long it took is known to about a tenth of a second. */
struct vramgc_job {
    uint64_t sequence;
    uint64_t time_ns; /* when it began, since the start of the record */
    uint64_t took_ns; /* until its last block event */
    uint64_t number;  /* of the device: 1, 2, ... */
    uint64_t peak_live_bytes;
    uint64_t peak_held_bytes; /* by this process; higher ones between two looks are not seen */
    uint64_t live_bytes;      /* when the program rested */
    uint64_t host_bytes;      /* then: resident memory of the process but for mapped files, 0: ? */
    uint64_t pinned_bytes;    /* then: page-locked host memory of the device */
    uint64_t moved_bytes;     /* meanwhile: taken by functions that move models */
    uint64_t device;
};

struct vramgc_hook {
    char name[48];
    uint64_t calls;
    uint64_t failed;
};

struct vramgc_setting {
    char name[24]; /* without VRAMGC_, in lower case */
    char value[160];
    char origin[16]; /* default, environment, invalid */
};

/* A call stack and how much memory was asked for from it. frames[i].text is filled in later, by
 * the library's own thread; until then only the address is known. */
struct vramgc_frame {
    uint64_t address;
    char text[88]; /* symbol+offset (object) */
};

struct vramgc_stack {
    uint64_t count; /* allocations made from this stack */
    uint64_t bytes; /* asked for by them in all */
    uint64_t frame_count;
    struct vramgc_frame frames[VRAMGC_MAX_FRAMES];
};

/* A Python function that took device memory, or called one that did. */
struct vramgc_site {
    char function[64];
    char file[64];           /* the last two parts of its path */
    char phase[24];          /* of phases.def or the user's own; empty: none */
    uint32_t line;           /* where it begins */
    uint32_t rogues, breaks; /* tensors of its that outlived a model's step in comfy-aimdo; how
                              * often it took one that the step had not as it was recorded */
};

/* Who called whom: a node of the tree of Python functions, each under its caller. PyTorch's own and
 * those without a name are left out, as in sites[]. */
struct vramgc_call {
    uint32_t caller; /* 1 + index into calls[], which is less than its own; 0: nobody */
    uint32_t site;   /* index into sites[] */
};

/* A library, other than PyTorch's allocator, that has called for device memory. */
struct vramgc_library {
    char name[48]; /* of its file */
};

enum vramgc_end {
    VRAMGC_END_UNKNOWN, /* runs still, or a signal ended it: killed, crashed */
    VRAMGC_END_EXIT,    /* by exit or _exit, in good order so far: see end_status */
    VRAMGC_END_STATUS   /* the launcher saw how it ended: see end_status */
};

/* The host's memory that the process had at one look. 0: not known. */
struct vramgc_host_look {
    uint64_t anon_bytes, shared_bytes, file_bytes; /* resident */
    uint64_t swap_bytes;
    uint64_t limit_bytes;                  /* of its control group; 0: none, too */
    uint64_t group_bytes;                  /* what counts against that */
    uint64_t total_bytes, available_bytes; /* of the machine */
    uint64_t time_ns; /* since the start of the record, written last; 0: there was no look */
};

/* Linux may end a process of the control group for lack of memory after the latest look. */
enum vramgc_lack { VRAMGC_LACK_UNKNOWN, VRAMGC_LACK_NONE, VRAMGC_LACK_KILLED };

struct vramgc_host {
    struct vramgc_host_look latest; /* about once a second */
    struct vramgc_host_look peak;   /* when it had most, swapped memory with it, but for files */
    uint64_t group_id;              /* see base/control_group.h */
    uint64_t counts_kills;          /* 1: the next is known */
    uint64_t oom_kills;             /* at the latest look */
    uint64_t lack;                  /* enum vramgc_lack, by the launcher */
    struct vramgc_floors floors;    /* what it had, for each of the floors of the devices */
    uint64_t in_use_bytes;          /* of its allocator, as it last rested; 0: not known */
    char call[40];                  /* by which the allocator gave memory back; empty: never */
};

/* The limits that hold at this moment, amounts as base/parse.h has them: `vramgc set` writes here,
 * too. */
struct vramgc_limits {
    uint64_t headroom;
    uint64_t cap;
};

struct vramgc_file {
    char magic[8];
    uint32_t format_version;
    uint32_t device_count; /* devices used so far: 1 + highest index */
    uint64_t file_bytes;   /* sizeof(struct vramgc_file) */
    uint64_t pid;
    uint64_t parent_pid;
    uint64_t process_start;   /* start time of the process from /proc/PID/stat, clock ticks */
    uint64_t started_unix_ns; /* CLOCK_REALTIME when the record began */
    uint64_t started_ns;      /* CLOCK_MONOTONIC then */
    uint64_t latest_ns;       /* CLOCK_MONOTONIC of the latest event or tick */
    uint64_t before_ns;       /* how long the process had run as the record began */
    uint64_t python_ended_ns; /* since the start of the record; 0: it did not, or is not known */
    uint64_t end;             /* enum vramgc_end */
    int64_t end_status;       /* wait status as waitpid() gives it */
    uint64_t stop_asked;      /* 1: the launcher saw Ctrl-C, or another signal that ends programs */
    uint64_t cuda_driver;     /* e.g. 13000 */
    uint64_t capturing;       /* captures under way */
    uint64_t parker;          /* as `parked`: who parks it by VRAMGC_PARK, and wakes it */
    uint64_t entered;         /* calls of the driver, beyond those in `hooks`, while it has one */
    char version[32];         /* of vramgc */
    char run_id[48];          /* of `vramgc run`, empty without it */
    char executable[256];
    char host_name[72];       /* of the machine, or container; empty: not known */
    char working_folder[256]; /* as the record began, with a / at its end; empty: not known */
    char command_line[1024];  /* arguments, and what is in COMMANDLINE_ARGS, separated by a space */
    char torch_version[32];
    char alloc_conf[256];     /* what PyTorch reads, empty: nothing set */
    char alloc_conf_why[128]; /* who chose it */
    uint64_t chose_segments;  /* 1: vramgc did, that segments are expandable */
    char mode[16];            /* what auto became */
    char mode_why[192];
    uint64_t driver_pool; /* 1: why the mode is so: PyTorch allocates from the driver's pool */
    uint64_t needs_proof; /* 1: ... `vramgc prove` has not been run for this card and driver */
    struct vramgc_process_stats process;
    uint64_t setting_count;
    struct vramgc_setting settings[VRAMGC_MAX_SETTINGS];
    uint64_t hook_count;
    struct vramgc_hook hooks[VRAMGC_MAX_HOOKS];
    uint64_t actions_written;
    struct vramgc_action actions[VRAMGC_MAX_ACTIONS];
    uint64_t refusals_written;
    struct vramgc_refusal refusals[VRAMGC_MAX_REFUSALS];
    uint64_t marks_written;
    struct vramgc_mark marks[VRAMGC_MAX_MARKS];
    uint64_t jobs_written;
    struct vramgc_job jobs[VRAMGC_MAX_JOBS];
    uint64_t stack_count;
    struct vramgc_stack stacks[VRAMGC_MAX_STACKS];
    uint64_t latest_site;   /* 1 + index of who took memory last, on any device; 0: not known */
    uint64_t weights_bytes; /* of files of weights that were mapped at the latest out-of-memory */
    uint64_t site_count;
    struct vramgc_site sites[VRAMGC_MAX_SITES];
    uint64_t call_count;
    struct vramgc_call calls[VRAMGC_MAX_CALLS];
    uint64_t library_count; /* with the first, which is not named: all that are not known */
    struct vramgc_library libraries[VRAMGC_MAX_LIBRARIES];
    struct vramgc_host host;
    struct vramgc_limits limits;
    /* 1: by `vramgc park`; else who is just parking or waking it, or was killed at that: a process
     * id << 32, and the lower half of its start time in clock ticks. 0: nobody. */
    uint64_t parked;
    /* The lower half: threads that ask the driver what is free; while parked they stand there. And
     * VRAMGC_ANSWERED for each time that none did any more. */
    uint64_t asking;
    struct vramgc_device devices[VRAMGC_MAX_DEVICES];
};

/* A second file, "STATISTICS FILE.oomN" for device N, written with VRAMGC_SNAPSHOT_ON_OOM at an
 * out-of-memory: this head, then `count` times struct vramgc_block of vramgc.h, in address order.
 * The latest takes the place of an earlier one; one that is cut short is no map. */
#define VRAMGC_MAP_MAGIC "VRAMGCM\n"

struct vramgc_map {
    char magic[8];
    uint32_t block_bytes; /* sizeof(struct vramgc_block) */
    uint32_t device;
    uint64_t pid;
    uint64_t started_ns;    /* of the statistics file */
    uint64_t time_ns;       /* since then */
    uint64_t request_bytes; /* for which there was no memory */
    uint64_t free_bytes;    /* of the device, the latest reading */
    uint64_t count;
};

#endif
