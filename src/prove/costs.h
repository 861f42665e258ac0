/* costs.h: what the driver's calls for memory cost on this card. It must leave nothing behind. */
#pragma once

#include "prove/driver_calls.h"

struct cost {
    char call[24];
    unsigned mib, handles;       /* of one call */
    char beside[24];             /* what went on at the same time; "": nothing */
    uint64_t median_ns, high_ns; /* the 99th percentile */
};

enum { COSTS_MOST = 64 }; /* there are 33 */

struct costs {
    size_t count;
    struct cost list[COSTS_MOST];
    bool unmap_waits; /* cuMemUnmap comes back only when running kernels are over */
};

/* In a process of its own that has the context. samples: of each. */
CUresult costs_measure(size_t samples, struct costs *out);
