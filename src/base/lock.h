/* lock.h: a small lock for short critical sections. It is one compare-and-swap when nobody else is
 * inside, needs no initialisation but zero, and can be forced open in a forked child. It must never
 * be held across a call into the driver, PyTorch or Python. */
#ifndef LOCK_H
#define LOCK_H

#include "base/base.h"

struct lock {
    atomic_uint state; /* 0 free, 1 held, 2 held and somebody sleeps */
};

void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

static inline void lock_take(struct lock *lock) {
    unsigned expected = 0;
    if (UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->state, &expected, 1, memory_order_acquire, memory_order_relaxed)))
        lock_wait(lock);
}

static inline void lock_give(struct lock *lock) {
    if (UNLIKELY(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2))
        lock_wake(lock);
}

/* Only for a forked child, in which the holder does not exist any more. */
static inline void lock_force_open(struct lock *lock) {
    atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
}

#endif
