/* own_thread.c: see own_thread.h. It must not know what the threads do. */
#include "govern/own_thread.h"

#include "base/base.h"
#include "cuda/real.h"
#include "govern/torch.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The stack that our threads need. The C library takes the thread-local variables of all loaded
 * objects from the same stack, and says how much that is; where it does not, 8 MiB, as ulimit -s
 * has it for other threads, are address space only. */
enum { STACK_BYTES = 512 << 10, UNTOLD_BYTES = 8 << 20 };
typedef size_t minimal_stack(const pthread_attr_t *);

static size_t stack_bytes(const pthread_attr_t *attributes) {
    static const char name[] = "__pthread_get_minstack"; /* private, and what OpenJDK asks */
    minimal_stack *minimal = (minimal_stack *)real_dlsym(RTLD_DEFAULT, name);
    size_t rest_bytes = minimal ? minimal(attributes) : UNTOLD_BYTES;
    return STACK_BYTES + rest_bytes;
}

static struct {
    atomic_uint threads;
    atomic_bool begun;
    sigset_t mask;                /* of the thread that started the first */
    atomic_uint wakeups[WAKEUPS]; /* futexes */
    _Atomic(atomic_uint *) shared[WAKEUPS];
} self;

static bool thread_start(void *(*function)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes))
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes(&attributes));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!atomic_exchange(&self.begun, true))
        self.mask = before;
    atomic_fetch_add(&self.threads, 1);
    bool started = pthread_create(&thread, &attributes, function, NULL) == 0;
    if (!started)
        atomic_fetch_sub(&self.threads, 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* So many addresses glibc reserves for a thread as soon as that allocates, as ours do within the
 * driver and Python, and never gives back. A hundredth of what the program may take is not missed.
 */
#define ARENA_BYTES (64 * MEBIBYTE)

/* The machine may have had no more threads just then. */
bool own_thread_start(void *(*function)(void *)) {
    uint64_t few_bytes = torch_addresses_bytes() / 100;
    return few_bytes >= ARENA_BYTES && (thread_start(function) || thread_start(function));
}

unsigned own_threads(void) {
    return atomic_load(&self.threads);
}

void own_thread_take_signals(void) {
    pthread_sigmask(SIG_SETMASK, &self.mask, NULL);
}

void own_thread_ends(void) {
    own_thread_take_signals();
    atomic_fetch_sub(&self.threads, 1);
}

/* ---- sleeping ---- */

static atomic_uint *wakeup_word(enum wakeup who) {
    atomic_uint *shared = atomic_load(&self.shared[who]);
    return shared ? shared : &self.wakeups[who];
}

static int wakeup_scope(enum wakeup who) {
    return atomic_load(&self.shared[who]) ? 0 : FUTEX_PRIVATE_FLAG;
}

void wakeup_share(enum wakeup who, atomic_uint *shared) {
    atomic_store(&self.shared[who], shared);
}

void wakeup(enum wakeup who) {
    atomic_uint *count = wakeup_word(who);
    atomic_fetch_add(count, 1);
    syscall(SYS_futex, count, FUTEX_WAKE | wakeup_scope(who), 1, NULL, NULL, 0);
}

unsigned wakeup_count(enum wakeup who) {
    return atomic_load(wakeup_word(who));
}

void wakeup_sleep(enum wakeup who, uint64_t ns, unsigned count) {
    struct timespec time = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};
    syscall(SYS_futex, wakeup_word(who), FUTEX_WAIT | wakeup_scope(who), count, &time, NULL, 0);
}
