/* heap.c: see heap.h. All operations are made of one: turning part of a run of one state into a
 * run of another. Must not call malloc, directly or through libc: it may be malloc's caller. */
#include "heap/heap.h"

#include "heap/books.h"

static uint64_t run_end(const struct run *run) {
    return run->address + run->bytes;
}

static void count_in(struct heap *heap, const struct run *run) {
    heap_count_run(&heap->figures, run, 1);
}

static void count_out(struct heap *heap, const struct run *run) {
    heap_count_run(&heap->figures, run, UINT64_MAX);
}

uint64_t heap_count_stretches(const struct segment *segment) {
    uint64_t stretches = 0;
    bool mapped = false;
    for (const struct run *run = segment->first; run; run = run->next) {
        bool was_mapped = mapped;
        mapped = run->state != HEAP_UNMAPPED;
        stretches += mapped && !was_mapped;
    }
    return stretches;
}

/* ---- runs ---- */

/* Cuts the run in two at the address, which lies inside it, and returns the right part. */
static struct run *run_cut(struct heap *heap, struct run *run, uint64_t address) {
    struct run *right = nodes_take(&heap->runs);
    *right = *run;
    right->address = address;
    right->bytes = run_end(run) - address;
    right->previous = run;
    run->bytes -= right->bytes;
    run->next = right;
    if (right->next)
        right->next->previous = right;
    table_insert(&heap->table, right);
    return right;
}

/* Makes the run and its right neighbour one. Neither is in the figures. */
static void absorb_next(struct heap *heap, struct run *run) {
    struct run *gone = run->next;
    table_erase(&heap->table, gone);
    run->bytes += gone->bytes;
    run->next = gone->next;
    if (run->next)
        run->next->previous = run;
    nodes_give(&heap->runs, gone);
}

static bool are_one(const struct run *left, const struct run *right) {
    return left && right && left->state == right->state &&
           (left->state == HEAP_FREE || left->state == HEAP_UNMAPPED);
}

/* Joins a run that is not in the figures with its neighbours, where they must be one. */
static struct run *run_join(struct heap *heap, struct run *run) {
    if (are_one(run, run->next)) {
        count_out(heap, run->next);
        absorb_next(heap, run);
    }
    if (are_one(run->previous, run)) {
        run = run->previous;
        count_out(heap, run);
        absorb_next(heap, run);
    }
    return run;
}

/* Gives [address, address + bytes) of the run a new state; what is left of it on either side
 * stays as it was. Memory for two more runs must have been reserved unless it is the whole run. */
static void run_turn(struct heap *heap, struct run *run, uint64_t address, uint64_t bytes,
                     enum heap_state state) {
    count_out(heap, run);
    if (address > run->address) {
        struct run *left = run;
        run = run_cut(heap, left, address);
        count_in(heap, left);
    }
    if (bytes < run->bytes)
        count_in(heap, run_cut(heap, run, address + bytes));
    run->state = state;
    run->tag = 0;
    count_in(heap, run_join(heap, run));
}

static bool reserve_runs(struct heap *heap, size_t count) {
    return nodes_reserve(&heap->runs, count) && table_reserve(&heap->table, count);
}

static struct run *run_around(const struct heap *heap, uint64_t address) {
    struct run *run = table_find(&heap->table, address);
    if (run)
        return run;
    const struct segment *segment = directory_find(&heap->directory, address);
    if (!segment)
        return NULL;
    for (run = segment->first; run_end(run) <= address; run = run->next)
        continue;
    return run;
}

/* The run that all of [address, address + bytes) lies in, if it is in that state. */
static struct run *run_with(const struct heap *heap, uint64_t address, uint64_t bytes,
                            enum heap_state state) {
    struct run *run = run_around(heap, address);
    if (bytes == 0 || !run || run->state != state)
        return NULL;
    return bytes <= run->bytes - (address - run->address) ? run : NULL;
}

/* ---- segments ---- */

static uint64_t segment_end(const struct segment *segment) {
    return segment->address + segment->bytes;
}

/* The segment becomes part of what is known: directory, hash and figures. Room is reserved. */
static void segment_enter(struct heap *heap, struct segment *segment) {
    struct directory_entry entry = {segment->address, segment_end(segment), segment};
    directory_insert(&heap->directory, entry);
    heap->figures.segments += heap_count_stretches(segment);
    for (struct run *run = segment->first; run; run = run->next) {
        table_insert(&heap->table, run);
        count_in(heap, run);
    }
}

static void segment_leave(struct heap *heap, const struct segment *segment) {
    directory_erase(&heap->directory, segment->address);
    heap->figures.segments -= heap_count_stretches(segment);
    for (const struct run *run = segment->first; run; run = run->next) {
        table_erase(&heap->table, run);
        count_out(heap, run);
    }
}

static bool segment_add(struct heap *heap, struct segment description, enum heap_state state) {
    uint64_t begin = description.address;
    uint64_t bytes = description.bytes;
    if (bytes == 0 || begin > UINT64_MAX - bytes)
        return false;
    if (directory_overlaps(&heap->directory, begin, begin + bytes))
        return false;
    if (!reserve_runs(heap, 1) || !nodes_reserve(&heap->segments, 1) ||
        !directory_reserve(&heap->directory))
        return false;
    struct segment *segment = nodes_take(&heap->segments);
    *segment = description;
    segment->first = nodes_take(&heap->runs);
    *segment->first =
        (struct run){.address = begin, .bytes = bytes, .segment = segment, .state = state};
    segment_enter(heap, segment);
    return true;
}

bool heap_segment_add(struct heap *heap, uint64_t address, uint64_t bytes, uint64_t stream) {
    struct segment segment = {
        .address = address, .bytes = bytes, .stream = stream, .kind = HEAP_NATIVE};
    return segment_add(heap, segment, HEAP_FREE);
}

bool heap_range_add(struct heap *heap, uint64_t address, uint64_t bytes, uint64_t page_bytes) {
    struct segment segment = {
        .address = address, .bytes = bytes, .page_bytes = page_bytes, .kind = HEAP_EXPANDABLE};
    return segment_add(heap, segment, HEAP_UNMAPPED);
}

bool heap_segment_remove(struct heap *heap, uint64_t address, uint64_t *bytes) {
    struct segment *segment = directory_find(&heap->directory, address);
    if (!segment || segment->address != address)
        return false;
    segment_leave(heap, segment);
    struct segment **last = &heap->aside;
    while (*last)
        last = &(*last)->next_aside;
    *last = segment;
    segment->next_aside = NULL;
    if (bytes)
        *bytes = segment->bytes;
    return true;
}

static struct segment **newest_aside(struct heap *heap, uint64_t address) {
    struct segment **newest = NULL;
    for (struct segment **link = &heap->aside; *link; link = &(*link)->next_aside)
        if ((*link)->address == address)
            newest = link;
    return newest;
}

bool heap_segment_restore(struct heap *heap, uint64_t address) {
    struct segment **link = newest_aside(heap, address);
    if (!link)
        return false;
    struct segment *segment = *link;
    if (directory_overlaps(&heap->directory, address, segment_end(segment)))
        return false;
    size_t runs = 0;
    for (const struct run *run = segment->first; run; run = run->next)
        runs++;
    if (!table_reserve(&heap->table, runs) || !directory_reserve(&heap->directory))
        return false;
    *link = segment->next_aside;
    segment_enter(heap, segment);
    return true;
}

void heap_segment_forget(struct heap *heap, uint64_t address) {
    struct segment **link = &heap->aside; /* the oldest there */
    while (*link && (*link)->address != address)
        link = &(*link)->next_aside;
    struct segment *segment = *link;
    if (!segment)
        return;
    *link = segment->next_aside;
    for (struct run *run = segment->first, *next; run; run = next) {
        next = run->next;
        nodes_give(&heap->runs, run);
    }
    nodes_give(&heap->segments, segment);
}

bool heap_contains(const struct heap *heap, uint64_t address, enum heap_kind *kind) {
    const struct segment *segment = directory_find(&heap->directory, address);
    if (segment && kind)
        *kind = segment->kind;
    return segment != NULL;
}

/* ---- mapping ---- */

static bool is_mapped(const struct run *run) {
    return run && run->state != HEAP_UNMAPPED;
}

/* Is the byte before the address mapped, and the one at it? The address is in the run or
 * at its end. */
static bool mapped_before(const struct run *run, uint64_t address) {
    return is_mapped(address > run->address ? run : run->previous);
}

static bool mapped_at(const struct run *run, uint64_t address) {
    return is_mapped(address < run_end(run) ? run : run->next);
}

bool heap_map(struct heap *heap, uint64_t address, uint64_t bytes) {
    struct run *run = run_with(heap, address, bytes, HEAP_UNMAPPED);
    if (!run || !reserve_runs(heap, 2))
        return false;
    if (run->segment->page_bytes == 0)
        run->segment->page_bytes = bytes;
    /* A stretch more, unless it continues one, or two become one. */
    heap->figures.segments += 1;
    heap->figures.segments -= mapped_before(run, address);
    heap->figures.segments -= mapped_at(run, address + bytes);
    run_turn(heap, run, address, bytes, HEAP_FREE);
    return true;
}

bool heap_unmap(struct heap *heap, uint64_t address, uint64_t bytes) {
    struct run *run = run_with(heap, address, bytes, HEAP_FREE);
    if (!run || run->segment->kind != HEAP_EXPANDABLE || !reserve_runs(heap, 2))
        return false;
    heap->figures.segments += mapped_before(run, address);
    heap->figures.segments += mapped_at(run, address + bytes);
    heap->figures.segments -= 1;
    run_turn(heap, run, address, bytes, HEAP_UNMAPPED);
    return true;
}

/* ---- blocks ---- */

bool heap_allocate(struct heap *heap, uint64_t address, uint64_t bytes) {
    struct run *run = run_with(heap, address, bytes, HEAP_FREE);
    if (!run || !reserve_runs(heap, 2))
        return false;
    run_turn(heap, run, address, bytes, HEAP_ALLOCATED);
    return true;
}

/* Turns the whole run that begins at the address; block may be NULL. */
static bool turn_block(struct heap *heap, uint64_t address, enum heap_state from,
                       enum heap_state to, struct heap_block *block) {
    struct run *run = table_find(&heap->table, address);
    if (!run || run->state != from)
        return false;
    if (block)
        *block = (struct heap_block){.bytes = run->bytes, .tag = run->tag};
    run_turn(heap, run, address, run->bytes, to);
    return true;
}

bool heap_free(struct heap *heap, uint64_t address, struct heap_block *block) {
    return turn_block(heap, address, HEAP_ALLOCATED, HEAP_FREE, block);
}

bool heap_pend(struct heap *heap, uint64_t address, struct heap_block *block) {
    return turn_block(heap, address, HEAP_ALLOCATED, HEAP_PENDING, block);
}

bool heap_complete(struct heap *heap, uint64_t address) {
    return turn_block(heap, address, HEAP_PENDING, HEAP_FREE, NULL);
}

bool heap_set_tag(struct heap *heap, uint64_t address, uint32_t tag) {
    struct run *run = table_find(&heap->table, address);
    if (!run || run->state != HEAP_ALLOCATED)
        return false;
    run->tag = tag;
    return true;
}

/* ---- the heap ---- */

static void start_empty(struct heap *heap) {
    *heap = (struct heap){
        .runs = {.node_bytes = RUN_NODE_BYTES},
        .segments = {.node_bytes = SEGMENT_NODE_BYTES},
    };
}

struct heap *heap_create(void) {
    struct heap *heap = nodes_map(sizeof *heap);
    if (heap)
        start_empty(heap);
    return heap;
}

void heap_clear(struct heap *heap) {
    nodes_release(&heap->runs);
    nodes_release(&heap->segments);
    table_release(&heap->table);
    directory_release(&heap->directory);
    start_empty(heap);
}

void heap_destroy(struct heap *heap) {
    if (!heap)
        return;
    heap_clear(heap);
    nodes_unmap(heap, sizeof *heap);
}

const struct heap_figures *heap_figures(const struct heap *heap) {
    return &heap->figures;
}
