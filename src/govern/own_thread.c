/* own_thread.c: see own_thread.h. It must not know what the threads do. */
#include "govern/own_thread.h"

#include "base/base.h"
#include "cuda/real.h"
#include "govern/torch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

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
    atomic_uint count;
    atomic_bool begun;
    sigset_t mask; /* of the thread that started the first */
} self;

static bool start(void *(*function)(void *)) {
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
    atomic_fetch_add(&self.count, 1);
    bool started = pthread_create(&thread, &attributes, function, NULL) == 0;
    if (!started)
        atomic_fetch_sub(&self.count, 1);
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
    return few_bytes >= ARENA_BYTES && (start(function) || start(function));
}

unsigned own_threads(void) {
    return atomic_load(&self.count);
}

void own_thread_take_signals(void) {
    pthread_sigmask(SIG_SETMASK, &self.mask, NULL);
}

void own_thread_ends(void) {
    own_thread_take_signals();
    atomic_fetch_sub(&self.count, 1);
}
