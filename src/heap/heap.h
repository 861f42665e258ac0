/* heap.h: the shadow heap of one device: segments, and the blocks and holes in them, as PyTorch's
 * caching allocator sees them. Pure: knows no CUDA, no clock, no I/O, and takes no lock; the caller
 * makes sure that one thread at a time is inside one heap.
 *
 *     UNMAPPED --heap_map--> FREE --heap_allocate--> ALLOCATED --heap_free--> FREE
 *         ^--heap_unmap------' ^--heap_complete-- PENDING <--heap_pend--'
 *
 * The invariant (heap_is_valid): every byte of a segment belongs to exactly one run: unmapped
 * (expandable segments only), free, allocated, or pending (given back, but another stream still
 * works on it). Neighbouring runs of the same kind that are unmapped or free are always one run.
 * Runs are found by their first address through a hash, and know their neighbours, so each
 * operation takes constant time; only an address inside a run (a map, unmap or allocation in the
 * middle) walks the runs of its segment.
 *
 * Addresses and sizes are bytes. Functions that return bool change nothing and return false when
 * the event does not fit what the heap knows (the caller counts it) or when memory for the books
 * runs out. No function may be given a NULL heap. */
#pragma once

#include "heap/types.h"

struct heap; /* opaque; all of its memory comes from mmap, never from malloc */

/* NULL when no memory can be had. */
struct heap *heap_create(void);
void heap_destroy(struct heap *heap); /* heap may be NULL */

/* Forgets everything, also what is set aside (a device reset). Cannot fail. */
void heap_clear(struct heap *heap);

/* A native segment: one free run. False if it is empty, overlaps a known segment, or would end
 * beyond the last address. */
bool heap_segment_add(struct heap *heap, uint64_t address, uint64_t bytes, uint64_t stream);

/* An expandable segment: a range of addresses, unmapped, whose pages will be mapped in steps of
 * page_bytes (2 or 20 MiB; learnt from the first heap_map when 0, which must then be one page).
 * False as for heap_segment_add. */
bool heap_range_add(struct heap *heap, uint64_t address, uint64_t bytes, uint64_t page_bytes);

/* Removes the native segment or the range that begins at address, whatever is in it; its size is
 * stored in *bytes, which may be NULL. */
bool heap_segment_remove(struct heap *heap, uint64_t address, uint64_t *bytes);

/* heap_segment_remove sets the segment aside until the driver has answered: it is in no figure, no
 * look-up finds it, and its addresses may be added anew. heap_segment_forget then drops it for
 * good; heap_segment_restore puts it back with all that was in it when the driver refused to free
 * it (false if no segment of that address is aside, or another now lies there). Any number may be
 * aside. Twice the same address can only be when the driver did free the first and gave its
 * address out again; so restore takes the newest and forget the oldest, in whatever order the
 * threads come back. heap_segment_forget of an address that is not aside does nothing. */
bool heap_segment_restore(struct heap *heap, uint64_t address);
void heap_segment_forget(struct heap *heap, uint64_t address);

/* [address, address + bytes) of a range becomes mapped and free, or unmapped. All of it must be
 * unmapped, or mapped and free, before. */
bool heap_map(struct heap *heap, uint64_t address, uint64_t bytes);
bool heap_unmap(struct heap *heap, uint64_t address, uint64_t bytes);

/* A block is handed out: its bytes must be free. The rest of the free run stays free. */
bool heap_allocate(struct heap *heap, uint64_t address, uint64_t bytes);

/* A block as it was when it was given back: its size, and its tag (heap_set_tag). */
struct heap_block {
    uint64_t bytes;
    uint32_t tag;
};

/* A block is given back and is free at once, merged with its free neighbours. What it was is stored
 * in *block, which may be NULL; nothing is stored where the answer is false. */
bool heap_free(struct heap *heap, uint64_t address, struct heap_block *block);

/* A block is given back but waits for another stream; heap_complete makes it free. block as above.
 */
bool heap_pend(struct heap *heap, uint64_t address, struct heap_block *block);
bool heap_complete(struct heap *heap, uint64_t address);

/* A number of the caller's that stays with a block until it is given back; 0 at first. False: no
 * block begins at the address. */
bool heap_set_tag(struct heap *heap, uint64_t address, uint32_t tag);

/* The address lies in a segment or range; kind may be NULL. */
bool heap_contains(const struct heap *heap, uint64_t address, enum heap_kind *kind);

const struct heap_figures *heap_figures(const struct heap *heap);

/* Calls visit for every run in address order until it returns false. visit must not change the
 * heap; context is handed through and may be NULL. */
void heap_walk(const struct heap *heap, bool (*visit)(const struct heap_run *run, void *context),
               void *context);

struct frag_figures {
    uint64_t free_bytes;         /* free runs in all */
    uint64_t free_runs;          /* holes */
    uint64_t largest_hole_bytes; /* largest free run */
    uint64_t page_waste_bytes;   /* free bytes in 2 MiB pages (of the address) that also hold an
                                    active byte: what even an ideal compaction leaves */
};

/* Of one walk over the heap. What follows from these figures alone is computed by their readers. */
void frag_measure(const struct heap *heap, struct frag_figures *out);

/* Checks every invariant: runs tile their segments, neighbours agree, no two free neighbours, the
 * hash finds each run, no memory of the books is lost, and the figures equal a count made anew.
 * For tests and debug builds: it looks at every run. */
bool heap_is_valid(const struct heap *heap);
