/* own_thread.h: how vramgc's own threads begin, sleep and end, and who wakes them. They take no
 * signals. */
#pragma once

#include "base/base.h"

bool own_thread_start(void *(*function)(void *));

/* How many were started and have not ended. */
unsigned own_threads(void);

/* By a thread that ends: the program's exit handlers may be run in the last one, so it takes the
 * signals that the thread took which started the first of ours. */
void own_thread_ends(void);

/* The calling thread takes them, and goes on. */
void own_thread_take_signals(void);

/* LOOK: the one that looks at everything (background_thread.h). DECAY: the one that gives idle
 * pages back (decay_thread.h). */
enum wakeup { WAKEUP_LOOK, WAKEUP_DECAY, WAKEUPS };

/* From any thread: it does its next step at once. */
void wakeup(enum wakeup who);

/* Before that thread exists: other processes may wake it, too, by counting this word up and waking
 * whoever sleeps on it. NULL: no longer. */
void wakeup_share(enum wakeup who, atomic_uint *shared);

/* For our own threads: how often it was woken so far; it sleeps for so long, unless it was woken
 * since then. */
unsigned wakeup_count(enum wakeup who);
void wakeup_sleep(enum wakeup who, uint64_t ns, unsigned count);
