/* extent_size.h: in what extents a block gets its memory, and how much may be physical for it:
 * between few calls of the driver, which want large extents, and little that is held in vain, which
 * wants small ones. The vm's lock is not held. */
#ifndef VM_EXTENT_SIZE_H
#define VM_EXTENT_SIZE_H

#include "vm/vm_internal.h"

/* A block on its way to its user: the pages it reaches into, and which of them is to be looked at
 * next. */
struct block {
    struct page_segment *segment;
    bool pin;
    size_t first, next, end;
    size_t missing;      /* pages that it lacks still */
    size_t need, limit;  /* see limit_physical in extent_size.c */
    size_t before;       /* what was physical before it came */
    size_t fresh;        /* pages of its latest extent that no block had before; 0: none */
    size_t may_prefetch; /* an extent of so many pages may be made before it is asked for */
    struct extent_limits {
        size_t cached,
            new;     /* pages in an extent that is there already; in one made for the block */
        size_t part; /* an extent is at most this part of what lies around it: of the missing
                        pages that it is for, or of what a range holds already */
        size_t part_beyond; /* the same of one that lies beyond the block's end */
        size_t end; /* no extent lies behind that page: beyond the block's end where memory is
                       plentiful */
        bool whole; /* of what is there already also any extent that the block fills */
    } limits;
    size_t run_end; /* behind the missing pages that begin at or before next, */
    size_t run;     /* and how many they were */
};

/* All that it lacks in single pages. */
struct extent_limits extent_size_single(const struct block *block);

/* For block->missing pages; what should come from where memory is idle is taken there. Asks the
 * driver what is free, at most every 2 ms. */
void extent_size_set(struct vm *vm, struct block *block);

/* An extent of so many pages could not be made for the block: the next are half as large, or, where
 * memory goes back at once, single pages. */
void extent_size_fall_back(const struct vm *vm, struct block *block, size_t refused);

/* How large an extent is to be made for the next block; 0: none. */
size_t extent_size_prefetch(const struct block *block);

/* Whether more than so many pages will be physical with an extent that is made, though something is
 * idle. */
bool extent_size_exceeded(struct vm *vm, const struct block *block, size_t bound);

/* The block has all it needs. */
void extent_size_note(struct vm *vm, const struct block *block);

/* Whether the driver has so little left that what is idle is used first. Asks it as
 * extent_size_set. */
bool extent_size_is_short(struct vm *vm);

#endif
