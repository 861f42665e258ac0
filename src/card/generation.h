/* generation.h: another number after each change of something, for who has to know whether anything
 * moved between two moments. A change that takes time has a beginning and an end: in between there
 * is no number. Nothing here waits. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct generation {
    _Atomic uint64_t begun, ended; /* changes */
};

static inline void generation_begin(struct generation *generation) {
    atomic_fetch_add(&generation->begun, 1);
}

static inline void generation_end(struct generation *generation) {
    atomic_fetch_add(&generation->ended, 1);
}

/* 0: a change is under way. own: of those, what the caller is in itself, which do not count. */
static inline uint64_t generation_now(const struct generation *generation, uint64_t own) {
    uint64_t ended = atomic_load(&generation->ended);
    uint64_t begun = atomic_load(&generation->begun);
    return begun == ended + own ? begun + 1 : 0;
}

/* In a forked child, where nobody else is in one any more. */
static inline void generation_settle(struct generation *generation, uint64_t own) {
    atomic_store(&generation->ended, atomic_load(&generation->begun) - own);
}

/* True: nothing has changed between two such moments. */
static inline bool generation_same(uint64_t before, uint64_t after) {
    return before && before == after;
}

/* That of all memory of cards which this process takes or gives by calls. Until such a call has
 * been noted the driver counts what the books do not, or the other way round: a reading of the card
 * that is made beside one says nothing of what others hold. Any thread may call each. */

/* Around such a call and the note of it. They may be nested. */
void moves_begin(void);
void moves_end(void);

/* The thread's own, which makes no reading while the driver is in its call, do not count. */
uint64_t moves_now(void);

/* For a forked child. */
void moves_forget(void);
