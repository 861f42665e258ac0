/* internal.h: what a heap is made of, shared by heap.c and view.c only. */
#pragma once

#include "heap/directory.h"
#include "heap/nodes.h"
#include "heap/run.h"
#include "heap/run_table.h"

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
