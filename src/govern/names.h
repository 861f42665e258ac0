/* names.h: which Python function takes device memory. Hooks run without the GIL and must not call
 * Python: they leave a request, and a thread of vramgc's looks a moment later. What it finds serves
 * the blocks of the same thread for a moment, too. */
#ifndef NAMES_H
#define NAMES_H

#include "track/block.h"
#include "track/owners.h"
#include "track/thread.h"

/* How long what was found is true of a thread, and how old a request may be when it is answered.
 * Between two requests so much passes, too: the GIL is asked for 100 times a second at most. */
#ifndef NAMES_FRESH_NS
#define NAMES_FRESH_NS (10 * MILLISECOND_NS)
#endif

/* For hooks, of the calling thread; none of them waits. */
extern atomic_bool names_on;
uint32_t names_of_block(const struct block_event *event); /* its tag */

/* The thread is about to raise an out-of-memory error: its name is asked for, and waited for a
 * moment, unless the thread has the GIL, so that nobody could look. */
void names_at_oom(struct device *device);

/* Before a request after such an error: whether the program's Python has caught it and is at work
 * in its `except`. If so nothing went on without the memory. Waits as the one above. */
void names_after_oom(void);

static inline void names_before_request(void) {
    if (UNLIKELY(thread_state.oom.told.sequence > 0))
        names_after_oom();
}

/* What is known of the calling thread now: the function, and what it is part of. */
void names_describe(struct vramgc_action *action);

/* The thread that asked latest, 0: none; and where in Python it was when it was last looked at. */
uint64_t names_thread(void);

/* Starts the thread, once there is a Python. For vramgc's own thread. */
void names_begin(void);
void names_end(void);

/* On the way of every block that is handed out. */
extern THREAD_LOCAL int64_t names_left_bytes; /* until a small block is looked at */
extern THREAD_LOCAL bool names_to_wake;
void names_wake(void);

static inline uint32_t names_tag(const struct block_event *event) {
    if (!atomic_load_explicit(&names_on, memory_order_relaxed))
        return 0;
    if (event->bytes < OWNERS_STEP_BYTES) {
        names_left_bytes -= (int64_t)event->bytes;
        if (LIKELY(names_left_bytes > 0))
            return 0;
        names_left_bytes += (int64_t)OWNERS_STEP_BYTES;
    }
    return names_of_block(event);
}

/* The block has its tag in the books. Who answers before finds nobody to give the name to. */
static inline void names_block_came(void) {
    if (UNLIKELY(names_to_wake))
        names_wake();
}

#endif
