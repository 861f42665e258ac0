/* soft_oom.h: may this cudaMalloc of PyTorch's allocator be answered once with out of memory, so
 * that it empties its cache and asks again? Pure. Each answer but SOFT_OOM_SAFE names the case in
 * which the answer would become a real error, or be of no use; each was seen on real releases. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum soft_oom {
    SOFT_OOM_SAFE,
    SOFT_OOM_NOT_ALLOCATOR, /* only PyTorch's caching allocator asks again */
    SOFT_OOM_UNCACHED,   /* the path without a cache does not ask again; it is known by not asking
                            first whether the stream is captured */
    SOFT_OOM_CAPTURING,  /* during a capture the cache is not emptied: the error would be real */
    SOFT_OOM_RETRY,      /* the allocator has freed segments since its latest block event (for a
                            memory fraction, too), or the driver has refused this very request:
                            this is its last attempt */
    SOFT_OOM_INDUCED,    /* this request has been answered so already */
    SOFT_OOM_EXPANDABLE, /* segments are mapped piece by piece: PyTorch warns the user each
                            time, and 2.8 ... 2.12 may never map again */
    SOFT_OOM_BROKEN,     /* an earlier one became a real error: never again in this process */
    SOFT_OOM_NO_GAIN,    /* nothing would come back */
    SOFT_OOM_AT_WORK,    /* PyTorch would wait for the GPU: found out last, by reclaim.h */
    SOFT_OOM_VERDICTS
};

struct soft_oom_facts {
    bool from_allocator;
    bool stream_asked;     /* right before, on this thread */
    bool stream_capturing; /* the answer to that */
    bool capturing;        /* any stream of the process */
    unsigned frees_since_block;
    bool asked_again;       /* after the driver's own refusal, on this thread */
    uint64_t induced_bytes; /* of this thread, not answered yet; 0: none */
    bool expandable;
    bool broken;
    uint64_t releasable_bytes;
    uint64_t min_gain_bytes;
};

/* facts may not be NULL. */
enum soft_oom soft_oom_check(const struct soft_oom_facts *facts);

/* A word for the log and the report. */
const char *soft_oom_name(enum soft_oom verdict);
