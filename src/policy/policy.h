/* policy.h: decides whether memory is to be given back now: of the device, by a flush or page by
 * page; at a call, whether "out of memory" is a safe answer; and memory of the host. Pure: figures,
 * settings and a clock reading go in, a decision comes out; knows no CUDA, takes no lock, calls
 * nothing.
 *
 *     armed --over the threshold, enough to gain, cool-down over--> a reclaim --> disarmed
 *       ^------ use fell below, or as much became idle, by hysteresis_percent ------'
 *
 * The invariant: no rule fires again on what it did itself. What a reclaim left behind arms
 * nothing.
 *
 * Utilisation is (total - free) / total of the whole device, as in SD.Next. Rules:
 *  - off: never. observe: decides as flush would, and marks the decision as observed.
 *  - gain: what can be had is releasable + pool idle bytes. Without any, nothing is ever decided.
 *    The cache is emptied if it has releasable bytes, pools are trimmed if they have idle ones.
 *  - threshold: at a cudaMalloc that would carry utilisation over the threshold, or at a tick that
 *    finds it there, if at least min_gain_bytes can be had and the cool-down has passed.
 *  - hysteresis: after a reclaim the policy is disarmed until utilisation has fallen
 *    hysteresis_percent below the threshold, or what can be had has grown by as much of the device.
 *    (Else a program that really needs more than the threshold would be flushed for ever.)
 *  - back-off: a reclaim that is due again soon gave back what the program needs: what it takes
 *    anew, and waits for, is all that came of it. The cool-down doubles each time, to sixteen times
 *    its length, and is as set again once a reclaim has lasted for twice as long as it was. A
 *    program without a block event for the cool-down as set is not held up, so there that counts.
 *  - lowvram: threshold 0 without hysteresis; decided at ticks only, once the program has rested
 *    for quiet_ns, so that a running image is not slowed down, and once per rest: not again before
 *    a block event has come. (Else memory that no flush can get back would be tried for ever.)
 *    Min gain and cool-down count as above, back-off does not.
 *  - full: a cudaMalloc larger than what is free would be refused by the driver, upon which
 *    PyTorch empties its cache by itself: that is left to PyTorch, and arming does not change.
 *  - asked (through the C API): all that can be had, in modes flush and observe, whatever
 *    threshold, cool-down, hysteresis and min gain say. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum policy_mode { POLICY_OFF, POLICY_OBSERVE, POLICY_ACT }; /* ACT: flush, and compact */

struct policy_settings {
    enum policy_mode mode;
    double threshold_percent;
    double hysteresis_percent;
    /* VRAMGC_COOLDOWN is both: how long a user bears idle memory on a card that is full. */
    uint64_t cooldown_ns;  /* a flush: shortest time from one to the next, as each holds work up */
    uint64_t idle_most_ns; /* compact: longest that pages above the threshold stay idle */
    uint64_t min_gain_bytes;
    uint64_t quiet_ns;
    bool lowvram;
};

/* One device at one moment. */
struct policy_reading {
    uint64_t now_ns;
    uint64_t latest_event_ns;  /* latest block event, completed pending frees included */
    uint64_t total_bytes;      /* of the device; 0: unknown, only what is asked for is decided */
    uint64_t free_bytes;       /* of the device */
    uint64_t releasable_bytes; /* what emptying PyTorch's cache would give back */
    uint64_t pool_idle_bytes;  /* reserved by stream-ordered pools and not needed */
    uint64_t request_bytes;    /* the cudaMalloc about to be made; 0 at a tick */
    bool asked;                /* through the C API */
};

/* Mode compact: how old idle memory may get before it goes back; where who needs it takes the
 * newest first, old is what nobody needs. It needs no rest and no hysteresis.
 *
 *                                  below the threshold   above it           lowvram
 *     PyTorch has returned it      idle_most_ns          quiet_ns           LOWVRAM_KEPT_NS
 *     it is in PyTorch's cache     for ever              idle_most_ns       LOWVRAM_KEPT_NS
 *
 * Who moves models needs their memory again at once: sequential offload takes a tenth of the
 * driver's time that it takes alone; with 3 ms it took 1.6 times as much. A refused request, a
 * peer and a limit take all at once. With LOWVRAM_KEPT_NS SD 1.5 holds 1.10 of what is live. */
struct policy_idle {
    uint64_t total_bytes, used_bytes; /* of the device; total 0: unknown */
    uint64_t kept_bytes;              /* idle, in PyTorch's cache */
    uint64_t returned_bytes;          /* idle, given up by PyTorch, or without a place */
};

struct policy_decay {
    uint64_t kept_ns, kept_bytes, returned_ns; /* how old, and how much of it goes */
};
#define LOWVRAM_KEPT_NS UINT64_C(4000000)
struct policy_decay policy_decay(const struct policy_settings *settings,
                                 const struct policy_idle *idle);

/* ComfyUI on native segments, with the threshold at 60 % so that it works above it: 63 reclaims in
 * 57 s made it 8 % slower, that is 40 to 70 ms each. One in sixteen seconds is less than 0.5 %. */
#define POLICY_MOST_DOUBLINGS 4

/* Lives as long as the device; all zero at the start (which means armed). */
struct policy_state {
    bool disarmed;
    bool acted;
    unsigned doublings; /* of the cool-down */
    uint64_t latest_action_ns;
    uint64_t least_idle_bytes; /* that could be had since the latest reclaim; before one: 0 */
};

enum policy_reason { POLICY_NO_REASON, POLICY_THRESHOLD, POLICY_LOWVRAM, POLICY_ASKED };

struct policy_decision {
    bool flush;    /* PyTorch's cache is to be emptied */
    bool trim;     /* pools are to be trimmed */
    bool observed; /* mode observe: only to be recorded */
    enum policy_reason reason;
};

/* No pointer may be NULL. Changes *state (arming) but does not count the action as taken. A reading
 * whose clock lies before the latest action or event counts as if no time had passed. */
struct policy_decision policy_decide(const struct policy_settings *settings,
                                     struct policy_state *state,
                                     const struct policy_reading *reading);

/* To be called when a decision was carried out (observe: recorded), whatever its reason. It starts
 * the cool-down and disarms. Within the cool-down as set it was the rest of the latest one.
 * Block events after now_ns begin a new rest for lowvram. */
void policy_acted(const struct policy_settings *settings, struct policy_state *state,
                  uint64_t now_ns);

/* ---- a soft out-of-memory ---- */

/* May this cudaMalloc of PyTorch's allocator be answered once with out of memory, so that it
 * empties its cache and asks again? Each answer but SOFT_OOM_SAFE names the case in which the
 * answer would become a real error, or be of no use; each was seen on real releases. */
enum soft_oom {
    SOFT_OOM_SAFE,
    SOFT_OOM_NOT_ALLOCATOR, /* only PyTorch's caching allocator asks again */
    SOFT_OOM_UNCACHED,   /* the path without a cache does not ask again; it is known by not asking
                            first whether the stream is captured */
    SOFT_OOM_CAPTURING,  /* during a capture the cache is not emptied: the error would be real */
    SOFT_OOM_RETRY,      /* the allocator has freed segments since its latest block event (for a
                            memory fraction, too), or the driver has refused this very request:
                            this is its last attempt */
    SOFT_OOM_INDUCED,    /* this request has been answered so already */
    SOFT_OOM_EXPANDABLE, /* segments are mapped piece by piece: PyTorch warns the user each
                            time, and 2.8 ... 2.12 may never map again */
    SOFT_OOM_BROKEN,     /* an earlier one became a real error: never again in this process */
    SOFT_OOM_NO_GAIN,    /* nothing would come back */
    SOFT_OOM_AT_WORK,    /* PyTorch would wait for the GPU: found out last, by govern/reclaim.h */
    SOFT_OOM_VERDICTS
};

struct soft_oom_facts {
    bool from_allocator;
    bool stream_asked;     /* right before, on this thread */
    bool stream_capturing; /* the answer to that */
    bool capturing;        /* any stream of the process */
    unsigned frees_since_block;
    bool asked_again;         /* after the driver's own refusal, on this thread */
    uint64_t under_way_bytes; /* of this thread, not answered yet; 0: none */
    bool expandable;
    bool broken;
    uint64_t releasable_bytes;
    uint64_t min_gain_bytes;
};

/* facts may not be NULL. */
enum soft_oom soft_oom_check(const struct soft_oom_facts *facts);

/* A word for the log and the report. */
const char *soft_oom_name(enum soft_oom verdict);

/* ---- memory of the host: when it goes back to the system. The caller says what the process has,
 * and how busy it is ----
 *
 *  * Only at rest: over the last half second the process used less than a tenth of one processor.
 *  * Only if there is something to gain: beside what is in use it has STEP more than after the
 *    last release, and so much more is kept.
 *  * A hundredth of the time at most: so much of it what it cost the program to have mapped anew
 *    what releases gave back may be. Time in which it cost less is saved up, to some minutes.
 *    What a release itself took was taken from nobody, for the program rested: a tenth. */

/* All that the process has; how much of it is known to be in use, 0 where nothing is; and what
 * whoever gives back keeps of the rest, as far as is known: all of it, or some that is not there.
 */
struct host_has {
    uint64_t bytes, in_use_bytes, kept_bytes;
};

struct host_rule {
    uint64_t spare_bytes; /* least that it had beside what is in use since the last release */
    uint64_t kept_bytes;  /* and least that was kept */
    uint64_t step_bytes;  /* 0: none was made yet */
    uint64_t released_ns, took_ns, left_bytes; /* the last release, and what the process had then */
    uint64_t gained_bytes, again_bytes; /* what it gave back, and the most of it that came back */
    uint64_t paid_until_ns;             /* until then what the ones before it cost is worked off */
    uint64_t observed_bytes;            /* would be gone, had releases not only been observed */
};

/* Processor time of the program until then, and since when it has rested. */
struct host_pace {
    uint64_t time_ns, program_ns, rests_since_ns; /* rests_since_ns 0: it does not rest */
};

/* A reading, a few times a second: of the process, and of the thread that releases, which is no
 * work of the program's. Whether that rests. */
bool host_rests(struct host_pace *pace, uint64_t now_ns, uint64_t processor_ns, uint64_t own_ns);

/* At rest: is a release to be made now, while the process has so much? */
bool host_release_is_due(struct host_rule *rule, uint64_t now_ns, struct host_has has);

/* The same where none is ever made: how much one would give back now, as the rule would have it had
 * it made those before. */
uint64_t host_release_observed(struct host_rule *rule, uint64_t now_ns, struct host_has has);

/* One was made, and took so long. */
void host_released(struct host_rule *rule, uint64_t now_ns, uint64_t took_ns,
                   struct host_has before, struct host_has after);
