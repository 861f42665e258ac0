/* reclaim.h: what is known of the reclaims of a device: what the policy remembers, and what is
 * still to be done. */
#ifndef RECLAIM_H
#define RECLAIM_H

#include "policy/policy.h"
#include "track/device.h"

struct reclaim {
    struct lock lock;
    struct policy_state policy; /* under the lock */
    _Atomic bool asked;         /* vramgc_reclaim was called */
    _Atomic bool unfinished;    /* an induced out of memory gave back only a part */
    _Atomic bool wanted;        /* one was due where it could not be done */
    atomic_int verdict;         /* why it could not: enum soft_oom */
};

struct reclaim *reclaim_of(const struct device *device);

/* Counts a reclaim and writes it down. */
void reclaim_conclude(struct device *device, const struct vramgc_action *action);

/* Tells the policy of a reclaim, done or (observe) recorded, as the device is now. */
void reclaim_acted(struct device *device);

/* For a forked child. */
void reclaim_unlock(void);

#endif
