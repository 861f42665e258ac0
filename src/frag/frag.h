/* frag.h: fragmentation figures of a shadow heap. Pure: reads a heap, changes nothing, knows no
 * CUDA, no clock and no I/O. Where each formula comes from stands beside it. */
#ifndef FRAG_H
#define FRAG_H

#include <stdint.h>

struct heap;

/* Class i counts free runs of [2^i, 2^(i+1)) bytes; the last has the rest. */
#define FRAG_CLASSES 40

struct frag_figures {
    uint64_t free_bytes;         /* free runs in all */
    uint64_t free_runs;          /* holes */
    uint64_t largest_hole_bytes; /* largest free run */
    uint64_t page_waste_bytes;   /* free bytes in 2 MiB pages (of the address) that also hold an
                                    active byte: what even an ideal compaction leaves */
    uint64_t class_runs[FRAG_CLASSES];
    uint64_t class_bytes[FRAG_CLASSES];
};

/* Neither may be NULL. */
void frag_measure(const struct heap *heap, struct frag_figures *out);

/* External fragmentation, 0 (one hole) .. 1: 1 - largest hole / free bytes; 0 when nothing is
 * free. The classic definition of allocator literature (Wilson et al. 1995). */
double frag_external(const struct frag_figures *figures);

/* Unusable free space index for one request, 0 .. 1: the part of the free bytes in holes too small
 * for it (Gorman and Whitcroft 2006). 0 when nothing is free. Of the holes in the request's own
 * class only the largest hole of all is known exactly; the others count as too small. So this is
 * exact for powers of two and for requests above the largest hole, and else an upper bound. */
double frag_unusable(const struct frag_figures *figures, uint64_t request_bytes);

/* Fragmentation index of a request that failed (Gorman and Whitcroft 2006; as in Linux'
 * extfrag_index): 0 means memory is lacking, 1 means it is fragmented; -1 when the request would
 * fit into a hole. 1 - (1 + free_bytes / request_bytes) / free_runs, and 0 where that is negative
 * (one hole) or nothing is free. */
double frag_index(const struct frag_figures *figures, uint64_t request_bytes);

#endif
