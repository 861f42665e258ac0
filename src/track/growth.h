/* growth.h: how low live memory falls, time after time: what stays after each job. On the way of
 * every block event: it must cost next to nothing, and judges nothing. */
#pragma once

#include <stdbool.h>

#include "base/base.h"
#include "vramgc_format.h"

/* Zero at first. */
struct growth {
    uint64_t live_bytes;
    uint64_t top_bytes;    /* the highest since it was last taken from which it fell */
    uint64_t freed_bytes;  /* since the latest floor, all together */
    uint64_t lowest_bytes; /* while so much was freed */
};

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
