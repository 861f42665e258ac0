/* unlucky.h: included before every source of the stress test: a thread that has given a lock may be
 * set aside at once, so that what is done under two locks one after another, and should have been
 * done under one, fails here and not at a user's. */
#ifndef UNLUCKY_H
#define UNLUCKY_H

#include "base/lock.h"

#include <sched.h>

static inline void unlucky_moment(void) {
    static _Thread_local unsigned moments;
    moments = moments * 1664525u + 1013904223u + (unsigned)sched_getcpu();
    if (moments >> 26 == 0) /* one in 64 */
        sched_yield();
}

#define lock_give(lock) (lock_give(lock), unlucky_moment())

#endif
