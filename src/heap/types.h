/* types.h: what the shadow heap tells: the states of a run, the figures, and a run as it is shown.
 * Nothing here may depend on how a heap is kept. */
#pragma once

#include "base/base.h"

enum heap_state { HEAP_UNMAPPED, HEAP_FREE, HEAP_ALLOCATED, HEAP_PENDING };

enum heap_kind { HEAP_NATIVE, HEAP_EXPANDABLE };

/* Kept up to date by every operation; reading them costs nothing. */
struct heap_figures {
    uint64_t reserved_bytes;       /* free + allocated + pending */
    uint64_t allocated_bytes;      /* allocated runs */
    uint64_t active_bytes;         /* allocated and pending runs */
    uint64_t inactive_split_bytes; /* free runs that share a native segment with other runs */
    uint64_t releasable_bytes;     /* native: segments that are one free run; expandable: pages (of
                                      page_bytes, counted from the start of the range) inside free
                                      runs. What PyTorch's empty_cache would give back */
    uint64_t idle_bytes;           /* whole 2 MiB pages (of the address) inside free runs */
    uint64_t segments; /* native segments, and contiguous mapped stretches of expandable ones: what
                          torch.cuda.memory_snapshot() lists */
    uint64_t blocks;   /* allocated runs */
    uint64_t free_runs;
};

/* One run, as heap_walk shows it. */
struct heap_run {
    uint64_t address, bytes;
    enum heap_state state;
    enum heap_kind kind;
    uint64_t segment_address, segment_bytes; /* expandable: the contiguous mapped stretch, as
                                                memory_snapshot() has it; of an unmapped run: the
                                                run itself */
    uint64_t stream;                         /* 0 in expandable ones, whose stream cannot be seen */
};
