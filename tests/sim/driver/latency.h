/* What driver calls and operations cost on a card, for SIMGPU_LATENCY=card. This table is the only
 * place that knows. All figures are nanoseconds.
 *
 * Sources, so that each can be corrected from a measurement:
 *   [card]     an H200 with driver 580.159.04, the slowest of three proofs (tests/gpu/results).
 *              cuMemSetAccess and cuMemUnmap cost by the handle, cuMemCreate the same for any size.
 *   [kvcached] its bench_vmm on an A100 and an unknown driver: address reserve 19 us. It told of
 *              193 us for cuMemCreate, for which other sources have 29 and 71 us and the H200 14.
 *   [sd]       Stable Diffusion 1.5 at 512x512 in half precision makes about 25 steps a second on
 *              an A100, as its users tell, and 1,300 launches a step here: 30 us each in the mean.
 *   [assumed]  no modern figure was found; to be measured. A pool that grows, or is trimmed, costs
 *              what cuMemAlloc, or cuMemFree, costs. */
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
    uint64_t per_handle_ns;
};

static const struct cost_line card_costs[] = {
    [COST_MALLOC] = {44000, 250, 0},        /* [card] */
    [COST_FREE] = {35000, 600, 0},          /* [card] */
    [COST_HOST_ALLOC] = {50000, 150000, 0}, /* [assumed] pinning is per page */
    [COST_HOST_FREE] = {50000, 50000, 0},   /* [assumed] */
    [COST_RESERVE] = {19000, 0, 0},         /* [kvcached] */
    [COST_CREATE] = {13500, 0, 0},          /* [card] */
    [COST_MAP] = {1300, 0, 0},              /* [card] */
    [COST_SET_ACCESS] = {18000, 0, 27000},  /* [card] */
    [COST_UNMAP] = {10500, 0, 16300},       /* [card] */
    [COST_RELEASE] = {12500, 500, 0},       /* [card] */
    [COST_EVENT_RECORD] = {280, 0, 0},      /* [card] */
    [COST_EVENT_QUERY] = {1450, 0, 0},      /* [card] */
    [COST_STREAM_QUERY] = {1500, 0, 0},     /* [card] */
    [COST_GET_INFO] = {5400, 0, 0},         /* [card] 50 us and 8 ms were told of others */
    [COST_LOAD] = {200000, 0, 0},           /* [assumed] */
    [COST_LAUNCH] = {30000, 0, 0},          /* [sd] */
    [COST_COPY] = {8000, 42000, 0},         /* [assumed] 25 GB/s */
    [COST_COPY_DEVICE] = {5000, 700, 0},    /* [assumed] 1.5 TB/s */
    [COST_FILL] = {5000, 700, 0},           /* [assumed] */
};

static inline uint64_t cost_ns(enum cost cost, size_t bytes) {
    return card_costs[cost].base_ns + card_costs[cost].per_mib_ns * (bytes >> 10) / 1024;
}

static inline uint64_t cost_of_handles_ns(enum cost cost, size_t count) {
    return card_costs[cost].base_ns + card_costs[cost].per_handle_ns * count;
}

/* latency.c: lets a call of the driver last as long as on a card. Calls of several threads queue up
 * behind each other, as they do below user space. The lock is let go meanwhile. */
void latency_pass(enum cost cost, size_t bytes);
void latency_pass_handles(enum cost cost, size_t count);
/* Waits until no such call is going on. The lock is let go meanwhile. */
void latency_wait(void);

#endif
