/* heap.h: the shadow heap of one device: segments, and the blocks and holes in them, as PyTorch's
 * caching allocator sees them. Pure: knows no CUDA, no clock, no I/O, and takes no lock; the caller
 * makes sure that one thread at a time is inside one heap.
 *
 * Every byte of a segment belongs to exactly one run: unmapped (expandable segments only), free,
 * allocated, or pending (given back, but another stream still works on it). Neighbouring runs of
 * the same kind that are unmapped or free are always one run. Runs are found by their first
 * address through a hash, and know their neighbours, so each operation takes constant time; only
 * an address inside a run (a map or unmap in the middle) walks the runs of its segment.
 *
 * Addresses and sizes are bytes. Functions that return bool change nothing and return false when
 * the event does not fit what the heap knows (the caller counts it) or when memory for the books
 * runs out. No function may be given a NULL heap. */
#ifndef HEAP_H
#define HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_PAGE_BYTES ((uint64_t)2 << 20)

enum heap_state { HEAP_UNMAPPED, HEAP_FREE, HEAP_ALLOCATED, HEAP_PENDING };

enum heap_kind { HEAP_NATIVE, HEAP_EXPANDABLE };

/* Kept up to date by every operation; reading them costs nothing. */
struct heap_figures {
    uint64_t reserved_bytes;       /* free + allocated + pending */
    uint64_t allocated_bytes;      /* allocated runs */
    uint64_t active_bytes;         /* allocated and pending runs */
    uint64_t inactive_split_bytes; /* free runs that share a native segment with other runs */
    uint64_t releasable_bytes; /* native: segments that are one free run; expandable: whole mapped
                                  pages (of the size they were mapped in) inside free runs */
    uint64_t idle_bytes;       /* whole 2 MiB pages (of the address) inside free runs */
    uint64_t segments;         /* native segments, and expandable ones with anything mapped */
    uint64_t blocks;           /* allocated runs */
    uint64_t free_runs;
};

/* One run, as heap_walk shows it. */
struct heap_run {
    uint64_t address, bytes;
    enum heap_state state;
    enum heap_kind kind;
    uint64_t segment_address, segment_bytes; /* of an expandable one: the whole address range */
    uint64_t stream;
};

struct heap; /* opaque; about 200 bytes and tables that grow by mmap, never by malloc */

/* NULL when no memory can be had. */
struct heap *heap_create(void);
void heap_destroy(struct heap *heap); /* heap may be NULL */

/* Forgets everything (a device reset). */
void heap_clear(struct heap *heap);

/* A native segment: one free run. False if it overlaps a known segment. */
bool heap_segment_add(struct heap *heap, uint64_t address, uint64_t bytes, uint64_t stream);

/* An expandable segment: a range of addresses, unmapped, whose pages will be mapped in steps of
 * page_bytes (2 or 20 MiB; learnt from the first heap_map when 0). */
bool heap_range_add(struct heap *heap, uint64_t address, uint64_t bytes, uint64_t page_bytes);

/* Removes the native segment or the range that begins at address, whatever is in it; its size is
 * stored in *bytes, which may be NULL. */
bool heap_segment_remove(struct heap *heap, uint64_t address, uint64_t *bytes);

/* Puts back what heap_segment_remove took, when the driver refused to free it. The whole state of
 * the segment is restored. Between the two, heap_segment_remove holds the segment aside: at most
 * `address` of one segment per thread is in that state, and heap_segment_forget ends it. */
bool heap_segment_restore(struct heap *heap, uint64_t address);
void heap_segment_forget(struct heap *heap, uint64_t address);

/* [address, address + bytes) of a range becomes mapped and free, or unmapped. */
bool heap_map(struct heap *heap, uint64_t address, uint64_t bytes);
bool heap_unmap(struct heap *heap, uint64_t address, uint64_t bytes);

/* A block is handed out: its bytes must be free. The rest of the free run stays free. */
bool heap_allocate(struct heap *heap, uint64_t address, uint64_t bytes);

/* A block is given back and is free at once, merged with its free neighbours. Its size is stored
 * in *bytes, which may be NULL. */
bool heap_free(struct heap *heap, uint64_t address, uint64_t *bytes);

/* A block is given back but waits for another stream; heap_complete makes it free. */
bool heap_pend(struct heap *heap, uint64_t address, uint64_t *bytes);
bool heap_complete(struct heap *heap, uint64_t address);

/* Whether the address lies in a segment or range; kind may be NULL. */
bool heap_contains(const struct heap *heap, uint64_t address, enum heap_kind *kind);

/* The number of bytes of native segments that are one free run and belong to the stream. */
uint64_t heap_releasable_of_stream(const struct heap *heap, uint64_t stream);

const struct heap_figures *heap_figures(const struct heap *heap);

/* Calls visit for every run in address order until it returns false. */
void heap_walk(const struct heap *heap, bool (*visit)(const struct heap_run *run, void *context),
               void *context);

/* Checks every invariant: runs tile their segments, neighbours agree, no two free neighbours, the
 * hash finds each run, and the figures equal a count made anew. For tests and debug builds. */
bool heap_is_valid(const struct heap *heap);

#endif
