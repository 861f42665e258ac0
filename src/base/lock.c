/* lock.c: the slow half of lock.h: sleeping and waking by futex. It must do nothing else. */
#include "base/lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A pause takes 13 ns, all of them half of what it takes to sleep and be woken, 2.3 us (measured).
 * Who spins no longer than that never waits for more than twice as long as with the better choice
 * (competitive spinning: Karlin et al., SOSP 1991). */
enum { SPINS = 100 };

static void relax(void) {
    __builtin_ia32_pause();
}

static bool try_take(struct lock *lock) {
    unsigned expected = 0;
    return atomic_compare_exchange_strong_explicit(&lock->held, &expected, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

void lock_wait(struct lock *lock) {
    const struct timespec longest = {.tv_nsec = (long)MILLISECOND_NS};
    for (int i = 0; i < SPINS; i++) {
        if (try_take(lock))
            return;
        relax();
    }
    atomic_fetch_add(&lock->sleepers, 1);
    while (!try_take(lock))
        syscall(SYS_futex, &lock->held, FUTEX_WAIT_PRIVATE, 1, &longest, NULL, 0);
    atomic_fetch_sub(&lock->sleepers, 1);
}

void lock_wake(struct lock *lock) {
    syscall(SYS_futex, &lock->held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* No thread sleeps for longer at once, should one forget to ring. */
void bell_sleep(struct bell *bell, unsigned rings) {
    const struct timespec longest = {.tv_nsec = (long)(10 * MILLISECOND_NS)};
    atomic_fetch_add(&bell->waiting, 1);
    syscall(SYS_futex, &bell->rings, FUTEX_WAIT_PRIVATE, rings, &longest, NULL, 0);
    atomic_fetch_sub(&bell->waiting, 1);
}

void bell_wake(struct bell *bell) {
    syscall(SYS_futex, &bell->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
