/* lock.h: a small lock for short critical sections. When no other thread is inside, taking it is
 * one compare-and-swap and giving it is one plain store: it is on the way of every block event. It
 * needs no initialisation but zero, and can be forced open in a forked child. It must never be held
 * across a call into the driver, PyTorch or Python. */
#pragma once

#include "base/base.h"

struct lock {
    atomic_uint held; /* 0 or 1 */
    atomic_uint sleepers;
};

void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

static inline void lock_take(struct lock *lock) {
    unsigned expected = 0;
    if (UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->held, &expected, 1, memory_order_acquire, memory_order_relaxed)))
        lock_wait(lock);
}

/* The look at the sleepers may come before the store is seen by others, so that a thread that falls
 * asleep just then is not woken. That is why none sleeps for longer than a millisecond. */
static inline void lock_give(struct lock *lock) {
    atomic_store_explicit(&lock->held, 0, memory_order_release);
    if (UNLIKELY(atomic_load_explicit(&lock->sleepers, memory_order_relaxed) > 0))
        lock_wake(lock);
}

/* LOCKED(&self.lock); holds it up to the end of the block. Before anything there that calls the
 * driver, take and give it by hand. */
static inline struct lock *lock_taken(struct lock *lock) {
    lock_take(lock);
    return lock;
}

static inline void lock_give_at_end(struct lock **taken) {
    lock_give(*taken);
}
#define LOCKED(by) struct lock *locked AT_END(lock_give_at_end) = lock_taken(by)

/* Threads that have looked under a lock and not found what they need wait for its ring: a thread
 * that changes what they look at rings afterwards. Needs no initialisation but zero. */
struct bell {
    atomic_uint rings, waiting;
};

void bell_sleep(struct bell *bell, unsigned rings);
void bell_wake(struct bell *bell);

/* To be read while the lock is held; then, without it, waits until it has rung since. A thread that
 * wakes looks again: it may have been for nothing. */
static inline unsigned bell_rings(struct bell *bell) {
    return atomic_load(&bell->rings);
}

static inline void bell_wait(struct bell *bell, unsigned rings) {
    if (bell_rings(bell) == rings)
        bell_sleep(bell, rings);
}

/* The same for who holds the lock: it is given meanwhile. */
static inline void bell_await(struct bell *bell, struct lock *lock) {
    unsigned rings = bell_rings(bell);
    lock_give(lock);
    bell_wait(bell, rings);
    lock_take(lock);
}

static inline void bell_ring(struct bell *bell) {
    atomic_fetch_add(&bell->rings, 1);
    if (UNLIKELY(atomic_load(&bell->waiting) > 0))
        bell_wake(bell);
}

/* Only for a forked child, in which the holder does not exist any more. */
static inline void lock_force_open(struct lock *lock) {
    atomic_store_explicit(&lock->sleepers, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->held, 0, memory_order_relaxed);
}

/* Beside a lock of a module, or an array of what has one each: a forked child opens it
 * (process/start.c). The linker makes a list of them. */
struct locks_of_child {
    struct lock *first;
    size_t count, step_bytes;
};
#define CHILD_OPENS_AS(name, first, count, step)                                                   \
    static const struct locks_of_child name                                                        \
        __attribute__((section("locks_of_child"), used, aligned(sizeof(size_t)))) = {first, count, \
                                                                                     step}
#define CHILD_OPENS(lock) CHILD_OPENS_AS(child_opens, &(lock), 1, 0)
#define CHILD_OPENS_EACH(list)                                                                     \
    CHILD_OPENS_AS(child_opens_each, &(list)[0].lock, ARRAY_LENGTH(list), sizeof(list)[0])
