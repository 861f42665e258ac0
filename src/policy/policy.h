/* policy.h: decides whether memory is to be given back now. Pure: figures, settings and a clock
 * reading go in, a decision comes out; knows no CUDA, takes no lock, calls nothing.
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

enum policy_mode { POLICY_OFF, POLICY_OBSERVE, POLICY_FLUSH };

struct policy_settings {
    enum policy_mode mode;
    double threshold_percent;
    double hysteresis_percent;
    uint64_t cooldown_ns;
    uint64_t min_gain_bytes;
    uint64_t quiet_ns;
    bool lowvram;
};

/* What is known of one device at one moment. */
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

/* Mode compact: how old idle memory may get before it goes back. It needs no rest and no
 * hysteresis.
 *  - of what PyTorch has given up itself (empty_cache, a freed segment) as much goes as it has not
 *    needed for a sixteenth of quiet_ns; so all of it where PyTorch has neither taken nor given up
 *    memory for so long. (A web UI that moves one model to the host and loads the next needs it
 *    again at once: without that each move costs as many calls of the driver as the model has
 *    extents.)
 *  - what it keeps in its cache stays below the threshold, as it would without us. Above it, it
 *    goes once it has been idle for the cool-down, down to the threshold.
 *  - lowvram: all goes once it has been idle for a two hundredth of quiet_ns, if as much is idle as
 *    is live; longer the less it is, at most quiet_ns, and shorter the more it is; at once if it is
 *    four times as much. Where that takes too much of the time, later: see policy_pace. */
struct policy_idle {
    uint64_t total_bytes, used_bytes; /* of the device; total 0: unknown */
    uint64_t attached_bytes;          /* idle, in PyTorch's cache */
    uint64_t retained_bytes;          /* idle, given up by PyTorch, or without a place */
    uint64_t live_bytes;
    uint64_t pace_ns; /* lowvram: see policy_pace */
};

struct policy_decay {
    uint64_t attached_ns, attached_bytes; /* how old, and how much of it goes */
    uint64_t retained_ns;                 /* for how long it was not needed */
};
#define POLICY_LINGER_PART 200 /* of quiet_ns: 250 us of 50 ms */
struct policy_decay policy_decay(const struct policy_settings *settings,
                                 const struct policy_idle *idle);

/* lowvram: no memory goes before it has been idle for so long, for as long as finding memory for
 * blocks and giving it back take more than a third of the time: it is what blocks need again. At
 * first a two hundredth of quiet_ns, then twice as long each time, a rest at most; and half as long
 * again once they take less than a sixth. 0: as policy_decay says. What PyTorch has given up never
 * waits for longer than without lowvram.
 * A third: SD 1.5 takes a tenth to a fifth, and holds 1.10 of what is live instead of 1.09;
 * sequential offload took half, and 1.4 times as long. (With a quarter SD 1.5 holds 1.15.) */
#define POLICY_MOST_WORK_PART 3
uint64_t policy_pace(const struct policy_settings *settings, uint64_t pace_ns, uint64_t work_ns,
                     uint64_t time_ns);

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
