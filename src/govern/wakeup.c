/* wakeup.c: see wakeup.h. It must not know what the threads do. */
#include "govern/wakeup.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct { atomic_uint counts[WAKEUPS]; /* futexes */ } self;

void wakeup(enum wakeup who) {
    atomic_fetch_add(&self.counts[who], 1);
    syscall(SYS_futex, &self.counts[who], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

unsigned wakeup_count(enum wakeup who) {
    return atomic_load(&self.counts[who]);
}

void wakeup_sleep(enum wakeup who, uint64_t ns, unsigned count) {
    struct timespec time = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};
    syscall(SYS_futex, &self.counts[who], FUTEX_WAIT_PRIVATE, count, &time, NULL, 0);
}
