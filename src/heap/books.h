/* books.h: the books of a heap, for the files of this folder only: nodes of one size, the runs cut
 * from them, a hash that finds a run by its first address, and the segments in address order.
 * All memory comes straight from mmap: the host's malloc must never be entered from here, for it
 * may be what called us. Takes no lock. */
#pragma once

#include "heap/types.h"

/* ---- nodes ---- */

struct nodes_chunk;

/* All zero but node_bytes at the start. */
struct nodes {
    size_t node_bytes; /* a multiple of 16 */
    size_t available;  /* nodes that nodes_take can hand out without asking the system */
    size_t used;       /* nodes handed out and not given back */
    void *given_back;  /* list through the first word of each node */
    char *fresh;       /* never used: [fresh, fresh_end) */
    char *fresh_end;
    struct nodes_chunk *chunks;
};

/* Pages from the system, zeroed, and their way back. NULL when there are none. */
void *nodes_map(size_t bytes);
void nodes_unmap(void *memory, size_t bytes);

/* Makes sure that the next `count` calls of nodes_take cannot fail. False when out of memory. */
bool nodes_reserve(struct nodes *nodes, size_t count);

/* A node with undefined contents; nodes_reserve must have promised it. */
static inline void *nodes_take(struct nodes *nodes) {
    void *node = nodes->given_back;
    if (node) {
        nodes->given_back = *(void **)node;
    } else {
        node = nodes->fresh;
        nodes->fresh += nodes->node_bytes;
    }
    nodes->available--;
    nodes->used++;
    return node;
}

static inline void nodes_give(struct nodes *nodes, void *node) {
    *(void **)node = nodes->given_back;
    nodes->given_back = node;
    nodes->available++;
    nodes->used--;
}

/* Returns all memory to the system; every node is gone. */
void nodes_release(struct nodes *nodes);

/* ---- runs ---- */

struct segment;

struct run {
    uint64_t address, bytes;
    struct run *previous, *next; /* neighbours in the segment; NULL at its ends */
    struct run *chain;           /* the next in the same bucket of the hash, or NULL */
    struct segment *segment;
    enum heap_state state;
    uint32_t tag; /* of an allocated run; else 0 */
};

/* A run gets a cache line of its own. */
#define RUN_NODE_BYTES ((size_t)64)
_Static_assert(sizeof(struct run) <= RUN_NODE_BYTES, "a run must fit into its node");

/* ---- finding a run ---- */

/* Buckets are chains through the runs themselves, so that the hash takes little room in the
 * processor's cache, and adding and taking out need no search beyond one short chain. At least as
 * many buckets as runs; doubled when there would be fewer. All zero at the start: an empty table
 * without memory. */
struct table {
    struct run **buckets;
    size_t capacity; /* buckets: a power of two, or 0 */
    unsigned shift;  /* 64 - log2(capacity) */
    size_t count;
};

/* Makes sure that `count` more runs fit. False when out of memory; nothing is lost then. */
bool table_reserve(struct table *table, size_t count);

/* Multiplication by 2^64 / golden ratio, upper bits: spreads the regular steps in which segments
 * and blocks are placed (Knuth, The Art of Computer Programming 3, section 6.4). Folding first
 * keeps steps that are bad for the one constant from lining up over a whole address space. */
static inline struct run **table_bucket(const struct table *table, uint64_t address) {
    uint64_t folded = address ^ address >> 32;
    return &table->buckets[(folded * UINT64_C(0x9E3779B97F4A7C15)) >> table->shift];
}

/* NULL when nothing begins at the address. */
static inline struct run *table_find(const struct table *table, uint64_t address) {
    if (table->capacity == 0)
        return NULL;
    struct run *run = *table_bucket(table, address);
    while (run && run->address != address)
        run = run->chain;
    return run;
}

/* table_reserve must have made room, and no run of this address may be in the table. The address
 * must not change while the run is in the table. */
static inline void table_insert(struct table *table, struct run *run) {
    struct run **bucket = table_bucket(table, run->address);
    run->chain = *bucket;
    *bucket = run;
    table->count++;
}

/* The run must be in the table. */
static inline void table_erase(struct table *table, const struct run *run) {
    struct run **link = table_bucket(table, run->address);
    while (*link != run)
        link = &(*link)->chain;
    *link = run->chain;
    table->count--;
}

void table_release(struct table *table);

/* ---- finding a segment: a sorted array, for there are few and they change rarely ---- */

struct directory_entry {
    uint64_t begin, end; /* [begin, end) */
    struct segment *segment;
};

/* All zero at the start. */
struct directory {
    struct directory_entry *entries;
    size_t count, capacity;
};

/* Makes sure that one more entry fits. False when out of memory. */
bool directory_reserve(struct directory *directory);

/* The segment that the address lies in, or NULL. */
struct segment *directory_find(const struct directory *directory, uint64_t address);

/* [begin, end) shares a byte with some segment. */
bool directory_overlaps(const struct directory *directory, uint64_t begin, uint64_t end);

/* There must be room (directory_reserve) and no overlap. */
void directory_insert(struct directory *directory, struct directory_entry entry);

/* A segment must begin at the address. */
void directory_erase(struct directory *directory, uint64_t begin);

void directory_release(struct directory *directory);

/* ---- the heap ---- */

struct segment {
    uint64_t address, bytes;
    uint64_t page_bytes; /* expandable: 0 until the first map */
    uint64_t stream;
    struct run *first;
    struct segment *next_aside; /* while set aside: the one set aside after it */
    enum heap_kind kind;
};

#define SEGMENT_NODE_BYTES ((size_t)64)
_Static_assert(sizeof(struct segment) <= SEGMENT_NODE_BYTES, "a segment must fit into its node");

struct heap {
    struct nodes runs;
    struct nodes segments;
    struct table table;         /* all runs of the segments in the directory */
    struct directory directory; /* all segments but those set aside */
    struct segment *aside;      /* oldest first */
    struct heap_figures figures;
};

/* Into how many contiguous mapped stretches the segment falls; 1 for a native one. */
uint64_t heap_count_stretches(const struct segment *segment);

/* ---- figures: on the way of every block event, therefore inline: with a constant for `times`
 * nothing is left of the multiplications ---- */

/* Whole pages inside [begin, end), in bytes. Most runs are shorter than a page, and no division
 * is needed to know that they hold none. */
static inline uint64_t page_span(uint64_t begin, uint64_t end, uint64_t page_bytes) {
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
    figures->idle_bytes += times * page_span(run->address, run->address + run->bytes, PAGE_BYTES);
    if (segment->kind == HEAP_EXPANDABLE)
        figures->releasable_bytes +=
            times * page_span(offset, offset + run->bytes, segment->page_bytes);
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
