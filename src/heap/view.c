/* view.c: looking at a heap without changing it: the walk over all runs, its fragmentation, and the
 * check of every invariant. */
#include "heap/books.h"
#include "heap/heap.h"

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

static struct heap_run describe_run(const struct run *run, struct stretch stretch) {
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
        struct heap_run described = describe_run(run, stretch);
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

/* ---- fragmentation ---- */

/* The page that the walk is in: its free bytes are waste if anything in it is active. */
struct walk_page {
    uint64_t number;
    uint64_t free_bytes;
    bool is_active;
};

struct measure {
    struct frag_figures *out;
    struct walk_page page;
};

static void leave_page(struct measure *measure) {
    if (measure->page.is_active)
        measure->out->page_waste_bytes += measure->page.free_bytes;
}

/* Adds the bytes of a run that lie in one page. Pages come in rising order. */
static void add_to_page(struct measure *measure, uint64_t number, uint64_t bytes, bool is_active) {
    if (number != measure->page.number) {
        leave_page(measure);
        measure->page = (struct walk_page){.number = number};
    }
    if (is_active)
        measure->page.is_active = true;
    else
        measure->page.free_bytes += bytes;
}

/* Only the first and last page of a run can be shared; those between have no other run. */
static void measure_pages(struct measure *measure, const struct heap_run *run) {
    bool is_active = run->state != HEAP_FREE;
    uint64_t end = run->address + run->bytes;
    uint64_t first = run->address / PAGE_BYTES;
    uint64_t last = (end - 1) / PAGE_BYTES;
    if (first == last) {
        add_to_page(measure, first, run->bytes, is_active);
        return;
    }
    add_to_page(measure, first, (first + 1) * PAGE_BYTES - run->address, is_active);
    add_to_page(measure, last, end - last * PAGE_BYTES, is_active);
}

static bool measure_run(const struct heap_run *run, void *context) {
    struct measure *measure = context;
    if (run->state == HEAP_UNMAPPED)
        return true;
    if (run->state == HEAP_FREE) {
        struct frag_figures *out = measure->out;
        out->free_bytes += run->bytes;
        out->free_runs++;
        out->largest_hole_bytes = max_u64(out->largest_hole_bytes, run->bytes);
    }
    measure_pages(measure, run);
    return true;
}

void frag_measure(const struct heap *heap, struct frag_figures *out) {
    *out = (struct frag_figures){0};
    struct measure measure = {.out = out};
    heap_walk(heap, measure_run, &measure);
    leave_page(&measure);
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
static bool runs_are_valid(const struct segment *segment, size_t *runs) {
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
           entry->end == segment->address + segment->bytes && runs_are_valid(segment, runs);
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
        if (!runs_are_valid(at, runs))
            return false;
    }
    return true;
}

/* The hash finds each of the runs, and there is nothing else in it. */
static bool hash_is_valid(const struct heap *heap, size_t runs) {
    for (size_t i = 0; i < heap->directory.count; i++)
        for (const struct run *run = heap->directory.entries[i].segment->first; run;
             run = run->next)
            if (table_find(&heap->table, run->address) != run)
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
