/* frag.c: see frag.h. Must not change the heap. */
#include "frag/frag.h"

#include "heap/heap.h"

#include <stdbool.h>

/* The page that the walk is in: its free bytes are waste if anything in it is active. */
struct page {
    uint64_t number;
    uint64_t free_bytes;
    bool is_active;
};

struct measure {
    struct frag_figures *out;
    struct page page;
};

/* 0 goes with 1. */
static unsigned class_of(uint64_t bytes) {
    unsigned class = bytes > 1 ? 63 - (unsigned)__builtin_clzll(bytes) : 0;
    return class < FRAG_CLASSES ? class : FRAG_CLASSES - 1;
}

static void leave_page(struct measure *measure) {
    if (measure->page.is_active)
        measure->out->page_waste_bytes += measure->page.free_bytes;
}

/* Adds the bytes of a run that lie in one page. Pages come in rising order. */
static void add_to_page(struct measure *measure, uint64_t number, uint64_t bytes, bool is_active) {
    if (number != measure->page.number) {
        leave_page(measure);
        measure->page = (struct page){.number = number};
    }
    if (is_active)
        measure->page.is_active = true;
    else
        measure->page.free_bytes += bytes;
}

/* Only the first and last page of a run can be shared; those between have no other run. */
static void add_pages(struct measure *measure, const struct heap_run *run) {
    bool is_active = run->state != HEAP_FREE;
    uint64_t end = run->address + run->bytes;
    uint64_t first = run->address / HEAP_PAGE_BYTES;
    uint64_t last = (end - 1) / HEAP_PAGE_BYTES;
    if (first == last) {
        add_to_page(measure, first, run->bytes, is_active);
        return;
    }
    add_to_page(measure, first, (first + 1) * HEAP_PAGE_BYTES - run->address, is_active);
    add_to_page(measure, last, end - last * HEAP_PAGE_BYTES, is_active);
}

static void add_hole(struct frag_figures *out, uint64_t bytes) {
    unsigned class = class_of(bytes);
    out->free_bytes += bytes;
    out->free_runs++;
    out->class_runs[class]++;
    out->class_bytes[class] += bytes;
    if (bytes > out->largest_hole_bytes)
        out->largest_hole_bytes = bytes;
}

static bool visit(const struct heap_run *run, void *context) {
    struct measure *measure = context;
    if (run->state == HEAP_UNMAPPED)
        return true;
    if (run->state == HEAP_FREE)
        add_hole(measure->out, run->bytes);
    add_pages(measure, run);
    return true;
}

void frag_measure(const struct heap *heap, struct frag_figures *out) {
    *out = (struct frag_figures){0};
    struct measure measure = {.out = out};
    heap_walk(heap, visit, &measure);
    leave_page(&measure);
}

double frag_external(const struct frag_figures *figures) {
    if (figures->free_bytes == 0)
        return 0;
    return 1 - (double)figures->largest_hole_bytes / (double)figures->free_bytes;
}

/* Bytes of the holes in the request's own class that are known to be large enough. */
static uint64_t usable_in_class(const struct frag_figures *figures, uint64_t request_bytes) {
    unsigned class = class_of(request_bytes);
    if (request_bytes <= UINT64_C(1) << class)
        return figures->class_bytes[class];
    bool has_largest = class_of(figures->largest_hole_bytes) == class;
    bool fits = request_bytes <= figures->largest_hole_bytes;
    return has_largest && fits ? figures->largest_hole_bytes : 0;
}

double frag_unusable(const struct frag_figures *figures, uint64_t request_bytes) {
    if (figures->free_bytes == 0)
        return 0;
    uint64_t usable = usable_in_class(figures, request_bytes);
    for (unsigned class = class_of(request_bytes) + 1; class < FRAG_CLASSES; class ++)
        usable += figures->class_bytes[class];
    return 1 - (double)usable / (double)figures->free_bytes;
}

double frag_index(const struct frag_figures *figures, uint64_t request_bytes) {
    if (figures->free_runs == 0)
        return 0;
    if (request_bytes <= figures->largest_hole_bytes)
        return -1;
    double requests = (double)figures->free_bytes / (double)request_bytes;
    double index = 1 - (1 + requests) / (double)figures->free_runs;
    return index > 0 ? index : 0;
}
