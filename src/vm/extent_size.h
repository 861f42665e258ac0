/* extent_size.h: in what pieces a block gets its memory, and how much may be physical for it: between
 * few calls of the driver, which want large pieces, and little that is held in vain, which wants
 * small ones. The pages' lock is not held. */
#ifndef VM_EXTENT_SIZE_H
#define VM_EXTENT_SIZE_H

#include "vm/vm_internal.h"

/* A block on its way to its user: the pages it reaches into, and which of them is to be looked at
 * next. */
struct block {
    struct page_segment *segment;
    bool pin;
    size_t first, next, end;
    size_t missing;     /* pages that it lacks still */
    size_t need, limit; /* see limit_physical in extent_size.c */
    size_t before;      /* what was physical before it came */
    size_t fresh;       /* pages of its latest piece that no block had before; 0: none */
    size_t may_spare;   /* a piece of so many pages may be made before it is asked for */
    struct allowed {
        size_t kept, new;   /* pages in a piece that is there already; in one made for the block */
        size_t part;        /* a piece is at most this part of what lies around it: of the missing
                               pages that it is for, or of what a range holds already */
        size_t part_beyond; /* the same of one that lies beyond the block's end */
        size_t end; /* no piece lies behind that page: beyond the block's end where memory is
                       plentiful */
        bool whole; /* of what is there already also any piece that the block fills */
    } allowed;
    size_t run_end; /* behind the missing pages that begin at or before next, */
    size_t run;     /* and how many they were */
};

/* All that it lacks in single pages. */
struct allowed limits_single(const struct block *block);

/* For block->missing pages; what should come from where memory is idle is taken there. Asks the
 * driver what is free, at most every 2 ms. */
void limits_set(struct pages *pages, struct block *block);

/* A piece of so many pages could not be made for the block: the next are half as large, or, where
 * memory goes back at once, single pages. */
void limits_fall_back(const struct pages *pages, struct block *block, size_t refused);

/* How large a piece is to be made for the next block; 0: none. */
size_t limits_spare(const struct block *block);

/* Whether more than so many pages will be physical with a piece that is made, though something is
 * idle. */
bool limits_exceeded(struct pages *pages, const struct block *block, size_t bound);

/* The block has all it needs. */
void limits_note(struct pages *pages, const struct block *block);

/* Whether the driver has so little left that what is idle is used first. Asks it as limits_set. */
bool limits_short(struct pages *pages);

#endif
