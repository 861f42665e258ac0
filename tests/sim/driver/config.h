/* The settings of the simulated device. Each is an environment variable SIMGPU_<NAME>, read once
 * when the driver is first used. Sizes are bytes and may carry a unit (KiB, MiB, GiB, TiB). */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_DEVICES = 8, MAX_OTHERS = 4 };

enum latency_profile { LATENCY_NONE, LATENCY_CARD };

/* Faults of a driver or a card that nobody is told of: who tests cards must find each. */
enum cheat {
    CHEAT_NONE,
    CHEAT_STALE_PAGE,  /* an address goes on to show the page that was mapped there before */
    CHEAT_LOST_ACCESS, /* cuMemSetAccess over several mappings does not open the last */
    CHEAT_EARLY_EVENT, /* cuEventQuery says that all is over while it is not */
    CHEAT_PARK_LOSES,  /* a process that was parked comes back with a byte that is another */
    CHEAT_HOST_CRASH,  /* cuMemCreate of memory that lies with the host ends the process: drivers
                          before 595 on some machines, https://github.com/NVIDIA/nccl/issues/2106 */
};

/* Who says that a screen hangs on the device. */
enum display {
    DISPLAY_NONE,
    DISPLAY_NVML,    /* NVML alone, as beside a Wayland desktop */
    DISPLAY_TIMEOUT, /* the limit for a kernel's time alone, as under Windows */
};

/* Another process that holds memory of each device, whatever it is. */
struct other {
    unsigned pid;
    size_t bytes;
};

struct config {
    size_t mem_bytes;         /* MEM: memory of each device. */
    size_t context_mem_bytes; /* CONTEXT_MEM: what a context takes of it. */
    int devices;              /* DEVICES: 0 .. MAX_DEVICES. */
    int cc_major, cc_minor;   /* CC: compute capability, "8.9". */
    int driver_version;       /* DRIVER: 1000 * major + 10 * minor. */
    enum latency_profile latency;
    size_t data_limit_bytes; /* DATA_LIMIT: larger copies and fills move no data; 0 = none. */
    size_t d2h_zero_bytes;   /* D2H_ZERO: results of kernels up to this are zeros. */
    unsigned long oom_nth;   /* OOM_NTH: every n-th device allocation is refused; 0 = none. */
    const char *fail;        /* FAIL: "CALL:N[+][:CODE][@OBJECT] ...": the N-th call fails, with +
                                all from then on; CODE: 2 (out of memory) if not told; OBJECT:
                                only calls of it count; NULL = none. */
    const char *clock_file;  /* CLOCK: a file with one number of 8 bytes: nanoseconds by which time
                                is  ahead of the machine's; whoever writes a greater one there moves
                                time on. NULL = none. */
    const char *hold_file;  /* HOLD: while this file is there a request for memory waits; it says so
                               by FILE.in. NULL = none. */
    const char *calls_file; /* CALLS: at the end, who called what is appended to it; NULL = no. */
    unsigned asked;         /* ASKED: work runs when it is asked for so often. */
    long pool_answer_ms;    /* POOL_ANSWER_MS: so much later is told what a pool was asked. */
    bool fabric;            /* FABRIC: handles for fabric export are supported. */
    bool host_vmm;          /* HOST_VMM: cuMemCreate can make memory that lies with the host. */
    bool context_event;     /* CONTEXT_EVENT: cuCtxRecordEvent works, as of driver 12.5. */
    bool new_forms;         /* NEW_FORMS: cuMemMap is found by name in a form of its own. */
    bool capture_vmm; /* CAPTURE_VMM: mapping memory is as unsafe in a capture as cudaMalloc. */
    size_t host_mem_bytes; /* HOST_MEM: as much of it as the host has; 0 = no limit. */
    size_t overread_bytes; /* OVERREAD: what reads goes on so far, where its allocation does. */
    long kernel_us;        /* KERNEL_US: a kernel takes from 1 us to this; 0 = a card's mean. */
    long get_info_us;      /* GET_INFO_US: cuMemGetInfo takes so long; 0 = as latency.h has it. */
    long slow;             /* SLOW: work on the device takes so many times as long. */
    bool context_lock;     /* CONTEXT_LOCK: launches wait for calls that last, and load kernels. */
    bool capture_strict;   /* CAPTURE_STRICT: to ask or wait is as unsafe in a capture, too. */
    size_t page_table_bytes;  /* PAGE_TABLE: what each 512 MiB of addresses in use take. */
    size_t local_mem_bytes;   /* LOCAL_MEM: what the first launch in a context takes. */
    size_t module_mem_bytes;  /* MODULE_MEM: what the first launch of a module's kernels takes. */
    long free_lag_ms;         /* FREE_LAG_MS: cuMemGetInfo hears so much later of what is freed. */
    long max_handles;         /* MAX_HANDLES: of cuMemCreate; 0 = no limit. */
    size_t max_address_bytes; /* MAX_ADDRESSES: in reservations; 0 = no limit. */
    bool unmap_waits;         /* UNMAP_WAITS: cuMemUnmap waits for all work of the device. */
    enum display display;     /* DISPLAY: none, nvml or timeout. */
    bool peer;                /* PEER: the devices can access each other's memory. */
    enum cheat cheat;         /* CHEAT: as enum cheat. */
    bool strict_abort;        /* STRICT=abort: abort on the first error the program makes. */
    int log_level;            /* LOG: 0 nothing, 1 failures and memory management, 2 every call. */
    struct other others[MAX_OTHERS]; /* OTHERS: PID:SIZE[,PID:SIZE...]. */
    size_t others_bytes;             /* of them all. */
    const char *log_file;            /* LOG_FILE: where the log goes; NULL = stderr. */
};

/* Reads the environment; a bad value costs one line on stderr and the default is used. */
void config_read(struct config *config);

#endif
