/* wakeup.h: how vramgc's own threads sleep, and who wakes them. */
#pragma once

#include "base/base.h"

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
