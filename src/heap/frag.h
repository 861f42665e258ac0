/* frag.h: fragmentation figures of a shadow heap. Pure: reads a heap, changes nothing, knows no
 * CUDA, no clock and no I/O. What follows from these figures alone is computed by their readers. */
#pragma once

#include <stdint.h>

struct heap;

struct frag_figures {
    uint64_t free_bytes;         /* free runs in all */
    uint64_t free_runs;          /* holes */
    uint64_t largest_hole_bytes; /* largest free run */
    uint64_t page_waste_bytes;   /* free bytes in 2 MiB pages (of the address) that also hold an
                                    active byte: what even an ideal compaction leaves */
};

/* Neither may be NULL. */
void frag_measure(const struct heap *heap, struct frag_figures *out);
