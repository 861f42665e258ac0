/* reclaim.h: the reclaims of a device: what the policy remembers, and what is still to be done.
 *
 *     a cudaMalloc crosses the threshold --safe here--> answered once with out of memory:
 *                |                               PyTorch empties its cache (soft_oom.h)
 *                '--not safe: `wanted`--> the flush thread has PyTorch do it (flush.h)
 *     a request is refused --> what may still serve it (last_resort.h)
 *     compact: a page is idle for too long --> the decay thread returns it (decay_thread.h)
 *
 * The invariant of this room: only our own threads wait, for the GIL or the GPU; a thread of the
 * program never does, but a little while for another program that gives it memory. */
#pragma once

#include "policy/policy.h"
#include "track/device.h"
#include "track/thread.h"
#include "vm/vm.h"

struct reclaim {
    struct lock lock;
    struct policy_state policy;  /* under the lock */
    _Atomic bool asked;          /* vramgc_reclaim was called */
    _Atomic bool unfinished;     /* a soft out-of-memory gave back only a part */
    atomic_int wanted;           /* one was due where it could not be done: why, enum soft_oom */
    atomic_uint asking_library;  /* 1 + which was refused what PyTorch has idle; 0: none */
    _Atomic bool waited_in_vain; /* that library did: nobody waits until we have looked */
    struct vm_past past;         /* the work that PyTorch would wait for to empty its cache */
};

struct reclaim *reclaim_of(const struct device *device);

/* By the latest reading of the card. Before there is one, it is. */
bool reclaim_is_below_threshold(const struct device *device);

/* May PyTorch empty its cache without being asked to by the program? For that it waits for
 * the GPU with its lock held, and what the GPU does may wait for a thread that wants the lock. So
 * the GPU must be past what it had to do when that was first wanted. Not in a capture. */
bool reclaim_need_not_wait(struct device *device);

/* Makes the device's context the current one of this thread, which is ours. False: it has none. */
bool reclaim_enter(const struct device *device);

/* Credits a reclaim, by PyTorch or by us, with the memory that it returned to the device: without
 * addresses, and without what other threads took or gave back meanwhile. left_bytes: what there is
 * of the kind still. */
static inline void reclaim_credit(struct vramgc_action *action, uint64_t left_bytes,
                                  uint64_t returned_bytes) {
    action->after_bytes = left_bytes;
    action->before_bytes = left_bytes + returned_bytes;
}

/* This thread's calls have returned so much to the device so far, PyTorch's among them. */
static inline uint64_t reclaim_returned_bytes(const struct device *device) {
    return thread_returned_bytes(device_index(device));
}

/* Notes how much less this process holds than before the reclaim: while it ran other threads may
 * have taken anew what it gave back. */
void reclaim_note_held(struct device *device, struct vramgc_action *action,
                       uint64_t held_before_bytes);

/* Counts a reclaim and writes it down. */
void reclaim_conclude(struct device *device, const struct vramgc_action *action);

/* Tells the policy of a reclaim, done or (observe) recorded. */
void reclaim_acted(struct device *device);

/* The device was reset; and for a forked child. */
void reclaim_reset(const struct device *device);
void reclaim_forget(void);
