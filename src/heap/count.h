/* count.h: what one run is in the figures of its heap. On the way of every block event, therefore
 * inline: with a constant for `times` nothing is left of the multiplications. Takes no lock. */
#pragma once

#include "heap/internal.h"

/* Whole pages inside [begin, end), in bytes. Most runs are shorter than a page, and no division
 * is needed to know that they hold none. */
static inline uint64_t whole_pages(uint64_t begin, uint64_t end, uint64_t page_bytes) {
    if (end - begin < page_bytes)
        return 0;
    uint64_t first = begin + (page_bytes - begin % page_bytes) % page_bytes;
    uint64_t last = end - end % page_bytes; /* not before first: end - begin is a page or more */
    return last - first;
}

static inline void count_free(struct heap_figures *figures, const struct run *run, uint64_t times) {
    const struct segment *segment = run->segment;
    uint64_t offset = run->address - segment->address;
    figures->free_runs += times;
    figures->idle_bytes += times * whole_pages(run->address, run->address + run->bytes, PAGE_BYTES);
    if (segment->kind == HEAP_EXPANDABLE)
        figures->releasable_bytes +=
            times * whole_pages(offset, offset + run->bytes, segment->page_bytes);
    else if (run->bytes == segment->bytes)
        figures->releasable_bytes += times * run->bytes;
    else
        figures->inactive_split_bytes += times * run->bytes;
}

/* Adds `times` times (1, or -1 as an unsigned number, which wraps) what a run is to the figures. */
static inline void heap_count_run(struct heap_figures *figures, const struct run *run,
                                  uint64_t times) {
    uint64_t bytes = times * run->bytes;
    if (run->state == HEAP_UNMAPPED)
        return;
    figures->reserved_bytes += bytes;
    if (run->state == HEAP_FREE) {
        count_free(figures, run, times);
        return;
    }
    figures->active_bytes += bytes;
    if (run->state == HEAP_ALLOCATED) {
        figures->allocated_bytes += bytes;
        figures->blocks += times;
    }
}
