/* cancel.h: pthread_cancel. A program may cancel a thread of its own that is inside a hook, and
 * open, write, poll and their like end the thread there: a thread that calls them while it holds a
 * lock, or half-way through a change, keeps that from happening until it has finished. */
#pragma once

#include <pthread.h>

/* Returns what cancel_restore needs. */
static inline int cancel_disable(void) {
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void cancel_restore(int before) {
    int ignored;
    pthread_setcancelstate(before, &ignored);
}
