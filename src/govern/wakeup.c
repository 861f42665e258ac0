/* wakeup.c: see wakeup.h. It must not know what the thread does. */
#include "govern/wakeup.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    atomic_uint count; /* futex */
    atomic_uint looks;
} self;

void wakeup_look(void) {
    atomic_fetch_add(&self.looks, 1);
    wakeup_step();
}

void wakeup_step(void) {
    atomic_fetch_add(&self.count, 1);
    syscall(SYS_futex, &self.count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

unsigned wakeup_looks(void) {
    return atomic_load(&self.looks);
}

unsigned wakeup_count(void) {
    return atomic_load(&self.count);
}

void wakeup_sleep(uint64_t ns, unsigned count) {
    struct timespec time = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};
    syscall(SYS_futex, &self.count, FUTEX_WAIT_PRIVATE, count, &time, NULL, 0);
}
