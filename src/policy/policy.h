/* policy.h: decides whether memory is to be given back now. Pure: figures, settings and a clock
 * reading go in, a decision comes out; knows no CUDA, takes no lock, calls nothing.
 *
 * Utilisation is (total - free) / total of the whole device, as in SD.Next. Rules:
 *  - off: never. observe: decides as flush would, and marks the decision as observed.
 *  - threshold: at a cudaMalloc that would carry utilisation over the threshold, or at a tick that
 *    finds it there, if at least min_gain_bytes can be had and the cool-down has passed.
 *  - hysteresis: after a reclaim at the threshold the policy is disarmed until utilisation has
 *    fallen hysteresis_percent below the threshold, or has risen as much above where the reclaim
 *    left it. (Else a program that really needs more than the threshold would be flushed for ever.)
 *  - lowvram: threshold 0 without hysteresis; decided at ticks only, once the program has rested
 *    for quiet_ns, so that a running image is not slowed down; a cudaMalloc that the free memory
 *    of the device cannot satisfy is still decided at once.
 *  - full: a cudaMalloc larger than what is free is always worth a reclaim, cool-down or not: the
 *    driver would refuse it, and PyTorch would flush all the same. It is left to PyTorch (no
 *    action), but takes no part in hysteresis. */
#ifndef POLICY_H
#define POLICY_H

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
    uint64_t latest_event_ns;  /* latest block event */
    uint64_t total_bytes;      /* of the device; 0: unknown, nothing is decided */
    uint64_t free_bytes;       /* of the device */
    uint64_t releasable_bytes; /* what emptying PyTorch's cache would give back */
    uint64_t pool_idle_bytes;  /* reserved by stream-ordered pools and not used */
    uint64_t request_bytes;    /* the cudaMalloc about to be made; 0 at a tick */
    bool asked;                /* through the C API: threshold, cool-down, min gain do not count */
};

/* Lives as long as the device; all zero at the start (which means armed). */
struct policy_state {
    bool disarmed;
    bool acted;
    uint64_t latest_action_ns;
    double left_percent; /* utilisation where the latest reclaim left it */
};

enum policy_reason { POLICY_NO_REASON, POLICY_THRESHOLD, POLICY_LOWVRAM, POLICY_ASKED };

struct policy_decision {
    bool flush;    /* PyTorch's cache is to be emptied */
    bool trim;     /* pools are to be trimmed */
    bool observed; /* mode observe: only to be recorded */
    enum policy_reason reason;
};

/* No pointer may be NULL. Changes *state (arming) but does not count the action as taken. */
struct policy_decision policy_decide(const struct policy_settings *settings,
                                     struct policy_state *state,
                                     const struct policy_reading *reading);

/* To be called when a decision was carried out (or recorded), with the utilisation it left. */
void policy_acted(struct policy_state *state, uint64_t now_ns, uint64_t total_bytes,
                  uint64_t free_bytes);

#endif
