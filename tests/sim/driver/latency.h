/* What driver calls and operations cost on a card, for SIMGPU_LATENCY=card. This table is the only
 * place that knows. All figures are nanoseconds.
 *
 * Sources, so that each can be corrected from a measurement:
 *   [kvcached] its bench_vmm on an A100, 2 MiB handles, one thread: address reserve 19 us, create
 *              193 us, map 1.45 us, set-access 36 us, unmap 25.6 us.
 *   [pytorch]  a note in PyTorch's allocator: cost goes with the number of handles, not with bytes.
 *   [sd]       Stable Diffusion 1.5 at 512x512 in half precision makes about 25 steps a second on
 *              an A100, as its users tell, and 1,300 launches a step here: 30 us each in the mean.
 *   [assumed]  no modern figure was found; to be measured. cuMemAlloc has to find the same memory
 * as cuMemCreate and to let the device in: per MiB it costs what these two cost. A pool that grows,
 * or is trimmed, costs what cuMemAlloc, or cuMemFree, costs. */
#ifndef SIM_LATENCY_H
#define SIM_LATENCY_H

#include <stddef.h>
#include <stdint.h>

enum cost {
    COST_MALLOC,
    COST_FREE,
    COST_HOST_ALLOC,
    COST_HOST_FREE,
    COST_RESERVE,
    COST_CREATE,
    COST_MAP,
    COST_SET_ACCESS,
    COST_UNMAP,
    COST_RELEASE,
    COST_EVENT_RECORD,
    COST_EVENT_QUERY,
    COST_STREAM_QUERY,
    COST_GET_INFO,
    COST_LOAD,   /* A kernel's code, when it is first launched. */
    COST_LAUNCH, /* Time on the device. */
    COST_COPY,   /* Time on the device, host link. */
    COST_COPY_DEVICE,
    COST_FILL,
};

struct cost_line {
    uint64_t base_ns;
    uint64_t per_mib_ns;
};

static const struct cost_line card_costs[] = {
    [COST_MALLOC] = {100000, 1600},      /* [assumed]; slope: create's and set-access's */
    [COST_FREE] = {150000, 100},         /* [assumed] */
    [COST_HOST_ALLOC] = {50000, 150000}, /* [assumed] pinning is per page */
    [COST_HOST_FREE] = {50000, 50000},   /* [assumed] */
    [COST_RESERVE] = {19000, 0},         /* [kvcached] */
    [COST_CREATE] = {190000, 1500},      /* [kvcached] 193 us at 2 MiB; slope [assumed] */
    [COST_MAP] = {1450, 0},              /* [kvcached] */
    [COST_SET_ACCESS] = {36000, 100},    /* [kvcached]; slope [assumed] */
    [COST_UNMAP] = {25600, 100},         /* [kvcached]; slope [assumed] */
    [COST_RELEASE] = {20000, 100},       /* [assumed] */
    [COST_EVENT_RECORD] = {1500, 0},     /* [assumed] */
    [COST_EVENT_QUERY] = {300, 0},       /* [assumed] */
    [COST_STREAM_QUERY] = {1000, 0},     /* [assumed] */
    [COST_GET_INFO] = {50000, 0},        /* [assumed] */
    [COST_LOAD] = {200000, 0},           /* [assumed] */
    [COST_LAUNCH] = {30000, 0},          /* [sd] */
    [COST_COPY] = {8000, 42000},         /* [assumed] 25 GB/s */
    [COST_COPY_DEVICE] = {5000, 700},    /* [assumed] 1.5 TB/s */
    [COST_FILL] = {5000, 700},           /* [assumed] */
};

static inline uint64_t cost_ns(enum cost cost, size_t bytes) {
    return card_costs[cost].base_ns + card_costs[cost].per_mib_ns * (bytes >> 10) / 1024;
}

/* latency.c: lets a call of the driver last as long as on a card. Calls of several threads queue up
 * behind each other, as they do below user space. The lock is let go meanwhile. */
void latency_pass(enum cost cost, size_t bytes);
/* Waits until no such call is going on. The lock is let go meanwhile. */
void latency_wait(void);

#endif
