/* owners.h: how low live memory falls, time after time (its floors: what stays after each job); and
 * how much of it belongs to whom (the sites of the statistics file, and the calls of them): now, at
 * the highest that live memory was since the latest look, and what stays with each time after time.
 * On the way of every block event: each of these takes constant time but where a list is written.
 * Pure, and judges nothing; one thread at a time. */
#pragma once

#include "base/base.h"
#include "python/names.h"
#include "vramgc_format.h"

#include <stdbool.h>

/* Zero at first. */
struct growth {
    uint64_t live_bytes;
    uint64_t top_bytes;    /* the highest since it was last taken from which it fell */
    uint64_t freed_bytes;  /* since the latest floor, all together */
    uint64_t lowest_bytes; /* while so much was freed */
};

void floors_add(struct vramgc_floors *out, uint64_t bytes);
void growth_floor(struct growth *growth, struct vramgc_floors *out);

/* When so much has been freed, the lowest meanwhile is a floor. All together, not at a time: a loop
 * that keeps each autograd graph frees only the small blocks between. A model that is loaded frees
 * nothing. */
static inline uint64_t growth_least_bytes(uint64_t total_bytes) {
    return max_u64(32 * MEBIBYTE, total_bytes / 256);
}

/* From any thread. */
static inline uint64_t growth_take_top(struct growth *growth) {
    return __atomic_exchange_n(&growth->top_bytes, 0, __ATOMIC_RELAXED);
}

/* Live memory is now so much. One thread at a time. */
static inline void growth_note(struct growth *growth, struct vramgc_floors *out,
                               uint64_t live_bytes, uint64_t total_bytes) {
    uint64_t before = growth->live_bytes;
    growth->live_bytes = live_bytes;
    if (live_bytes < before) {
        if (before > __atomic_load_n(&growth->top_bytes, __ATOMIC_RELAXED))
            __atomic_store_n(&growth->top_bytes, before, __ATOMIC_RELAXED);
        growth->lowest_bytes =
            growth->freed_bytes ? min_u64(growth->lowest_bytes, live_bytes) : live_bytes;
        growth->freed_bytes += before - live_bytes;
    } else if (UNLIKELY(growth->freed_bytes >= growth_least_bytes(total_bytes)) &&
               live_bytes > before) { /* figures are published where nothing came, too */
        growth_floor(growth, out);
    }
}

/* --- whose it is --- */

struct owner {
    uint64_t live_bytes, live_blocks;
    uint64_t taken_bytes;           /* since the start, whatever it has given back */
    uint64_t top_bytes, top_blocks; /* at top number top_seen; else what is live */
    uint64_t top_seen;
    uint64_t low_bytes;                 /* the least since the latest step of growth */
    uint64_t earlier_bytes, then_bytes; /* the same of the two steps before it */
};

/* All zero at first. */
struct owners {
    uint64_t top_bytes; /* the highest that all live memory was since the top was last listed */
    uint64_t tops;      /* how often it became that: the number of the latest */
    uint64_t next_turn; /* when the next step of growth begins */
    uint32_t site_count, call_count; /* so many of these have ever had something */
    struct owner of[VRAMGC_MAX_SITES];
    struct owner of_call[VRAMGC_MAX_CALLS]; /* the same memory again */
};

/* A block that it was given, or has given back. The tag is kept with the block, and says who it is
 * as names_caller does; 0: no owner is known. */
void owners_take(struct owners *owners, uint32_t tag, uint64_t bytes);
void owners_give(struct owners *owners, uint32_t tag, uint64_t bytes);

/* All live memory has become so much: a new top. */
static inline void owners_note_top(struct owners *owners, uint64_t live_bytes) {
    if (LIKELY(live_bytes <= owners->top_bytes))
        return;
    owners->top_bytes = live_bytes;
    owners->tops++;
}

/* Live memory has turned that often. A step of growth begins when that has doubled:
 * then the list of what grew between the two before it is written. */
void owners_step(struct owners *owners, uint64_t turns, struct vramgc_owners *grown);
static inline void owners_note_turns(struct owners *owners, uint64_t turns,
                                     struct vramgc_owners *grown) {
    if (UNLIKELY(turns >= owners->next_turn))
        owners_step(owners, turns, grown);
}

/* The largest owners, and the largest calls of any: now; and at the top, whose search begins anew
 * with what is live now. */
struct owners_lists {
    struct vramgc_owners sites, calls;
};
void owners_list_now(const struct owners *owners, uint64_t live_bytes, struct owners_lists *out);
void owners_list_top(struct owners *owners, uint64_t live_bytes, struct owners_lists *out);

/* Into the file, where somebody may read. */
void owners_publish(const struct vramgc_owners *made, struct vramgc_owners *out);

/* The device was reset: nothing is live. */
void owners_reset(struct owners *owners);
