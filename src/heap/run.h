/* run.h: what is kept of one run; shared by the files of this folder only. */
#pragma once

#include "heap/types.h"

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
