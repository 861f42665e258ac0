/* frag.c: see frag.h. Must not change the heap. */
#include "heap/frag.h"

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
    uint64_t first = run->address / PAGE_BYTES;
    uint64_t last = (end - 1) / PAGE_BYTES;
    if (first == last) {
        add_to_page(measure, first, run->bytes, is_active);
        return;
    }
    add_to_page(measure, first, (first + 1) * PAGE_BYTES - run->address, is_active);
    add_to_page(measure, last, end - last * PAGE_BYTES, is_active);
}

static void add_hole(struct frag_figures *out, uint64_t bytes) {
    out->free_bytes += bytes;
    out->free_runs++;
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
