/* own_thread.c: see own_thread.h. It must not know what the threads do. */
#include "govern/own_thread.h"

#include "base/base.h"

#include <pthread.h>
#include <signal.h>

enum { STACK_BYTES = 512 << 10 };

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
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
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

/* The machine may have had no more threads just then. */
bool own_thread_start(void *(*function)(void *)) {
    return start(function) || start(function);
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
