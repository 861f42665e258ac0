/* lock.c: the slow half of lock.h: sleeping and waking by futex. It must do nothing else. */
#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 100 };

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void lock_wait(struct lock *lock) {
    for (int i = 0; i < SPINS; i++) {
        unsigned expected = 0;
        if (atomic_compare_exchange_weak_explicit(&lock->state, &expected, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
        relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void lock_wake(struct lock *lock) {
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
