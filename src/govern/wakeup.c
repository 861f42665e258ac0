/* wakeup.c: see wakeup.h. It must not know what the threads do. */
#include "govern/wakeup.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    atomic_uint counts[WAKEUPS]; /* futexes */
    _Atomic(atomic_uint *) shared[WAKEUPS];
} self;

static atomic_uint *word(enum wakeup who) {
    atomic_uint *shared = atomic_load(&self.shared[who]);
    return shared ? shared : &self.counts[who];
}

static int scope(enum wakeup who) {
    return atomic_load(&self.shared[who]) ? 0 : FUTEX_PRIVATE_FLAG;
}

void wakeup_share(enum wakeup who, atomic_uint *shared) {
    atomic_store(&self.shared[who], shared);
}

void wakeup(enum wakeup who) {
    atomic_uint *count = word(who);
    atomic_fetch_add(count, 1);
    syscall(SYS_futex, count, FUTEX_WAKE | scope(who), 1, NULL, NULL, 0);
}

unsigned wakeup_count(enum wakeup who) {
    return atomic_load(word(who));
}

void wakeup_sleep(enum wakeup who, uint64_t ns, unsigned count) {
    struct timespec time = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};
    syscall(SYS_futex, word(who), FUTEX_WAIT | scope(who), count, &time, NULL, 0);
}
