/* view.c: looking at a heap without changing it: the walk over all runs, and the check of every
 * invariant. */
#include "heap/heap.h"

#include "heap/count.h"
#include "heap/internal.h"

#include <string.h>

/* ---- the walk ---- */

/* [begin, end): the segment that memory_snapshot() would list, or an unmapped run. */
struct stretch {
    uint64_t begin, end;
};

static struct stretch stretch_from(const struct run *run) {
    struct stretch stretch = {run->address, run->address + run->bytes};
    bool mapped = run->state != HEAP_UNMAPPED;
    while (mapped && run->next && run->next->state != HEAP_UNMAPPED) {
        run = run->next;
        stretch.end += run->bytes;
    }
    return stretch;
}

static struct heap_run describe(const struct run *run, struct stretch stretch) {
    const struct segment *segment = run->segment;
    return (struct heap_run){
        .address = run->address,
        .bytes = run->bytes,
        .state = run->state,
        .kind = segment->kind,
        .segment_address = stretch.begin,
        .segment_bytes = stretch.end - stretch.begin,
        .stream = segment->stream,
    };
}

static bool walk_segment(const struct segment *segment,
                         bool (*visit)(const struct heap_run *run, void *context), void *context) {
    struct stretch stretch = {segment->address, segment->address};
    for (const struct run *run = segment->first; run; run = run->next) {
        if (run->address >= stretch.end)
            stretch = stretch_from(run);
        struct heap_run described = describe(run, stretch);
        if (!visit(&described, context))
            return false;
    }
    return true;
}

void heap_walk(const struct heap *heap, bool (*visit)(const struct heap_run *run, void *context),
               void *context) {
    for (size_t i = 0; i < heap->directory.count; i++)
        if (!walk_segment(heap->directory.entries[i].segment, visit, context))
            return;
}

/* ---- the check ---- */

static bool state_fits(const struct run *run) {
    if (run->tag && run->state != HEAP_ALLOCATED)
        return false;
    if (run->state == HEAP_UNMAPPED)
        return run->segment->kind == HEAP_EXPANDABLE;
    return run->state == HEAP_FREE || run->state == HEAP_ALLOCATED || run->state == HEAP_PENDING;
}

/* A run against its left neighbour, NULL for the first of a segment. */
static bool run_is_valid(const struct run *run, const struct run *left) {
    if (run->bytes == 0 || run->previous != left || !state_fits(run))
        return false;
    if (!left)
        return run->address == run->segment->address;
    bool is_joinable = run->state == HEAP_FREE || run->state == HEAP_UNMAPPED;
    return left->address + left->bytes == run->address &&
           !(is_joinable && left->state == run->state);
}

/* Adds the number of runs to *runs. */
static bool segment_is_valid(const struct segment *segment, size_t *runs) {
    const struct run *left = NULL;
    for (const struct run *run = segment->first; run; run = run->next) {
        if (run->segment != segment || !run_is_valid(run, left))
            return false;
        left = run;
        (*runs)++;
    }
    return left && left->address + left->bytes == segment->address + segment->bytes;
}

static bool entry_is_valid(const struct directory_entry *entry, uint64_t end_before, size_t *runs) {
    const struct segment *segment = entry->segment;
    return entry->begin >= end_before && entry->begin == segment->address &&
           entry->end == segment->address + segment->bytes && segment_is_valid(segment, runs);
}

/* Adds the number of runs in the directory to *runs. */
static bool directory_is_valid(const struct directory *directory, size_t *runs) {
    uint64_t end_before = 0;
    for (size_t i = 0; i < directory->count; i++) {
        if (!entry_is_valid(&directory->entries[i], end_before, runs))
            return false;
        end_before = directory->entries[i].end;
    }
    return true;
}

static bool aside_is_valid(const struct heap *heap, size_t *segments, size_t *runs) {
    for (const struct segment *at = heap->aside; at; at = at->next_aside) {
        (*segments)++;
        if (!segment_is_valid(at, runs))
            return false;
    }
    return true;
}

static bool hash_finds(const struct table *table, const struct segment *segment) {
    for (const struct run *run = segment->first; run; run = run->next)
        if (table_find(table, run->address) != run)
            return false;
    return true;
}

/* The hash finds each of the runs, and there is nothing else in it. */
static bool hash_is_valid(const struct heap *heap, size_t runs) {
    for (size_t i = 0; i < heap->directory.count; i++)
        if (!hash_finds(&heap->table, heap->directory.entries[i].segment))
            return false;
    return heap->table.count == runs;
}

static bool figures_are_valid(const struct heap *heap) {
    struct heap_figures anew = {0};
    for (size_t i = 0; i < heap->directory.count; i++) {
        const struct segment *segment = heap->directory.entries[i].segment;
        anew.segments += heap_count_stretches(segment);
        for (const struct run *run = segment->first; run; run = run->next)
            heap_count_run(&anew, run, 1);
    }
    return memcmp(&anew, &heap->figures, sizeof anew) == 0;
}

bool heap_is_valid(const struct heap *heap) {
    size_t runs = 0;
    size_t segments = heap->directory.count;
    if (!directory_is_valid(&heap->directory, &runs) || !hash_is_valid(heap, runs))
        return false;
    if (!aside_is_valid(heap, &segments, &runs))
        return false;
    /* No node is lost. */
    return heap->runs.used == runs && heap->segments.used == segments && figures_are_valid(heap);
}
