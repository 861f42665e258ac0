/* costs.c: see costs.h. cuMemAlloc and cuMemFree stand for cudaMalloc and cudaFree, which call
 * them. */
#include "prove/costs.h"

#include "prove/check.h"
#include "prove/pattern.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_SAMPLES = 200,
    RANGE_PAGES = PLACE_PAGES,
    BUSY_MIB = 256,
    BUSY_FILLS = 16,
    WARM_UP = 2
};

static struct {
    struct costs *out;
    size_t samples, used;
    uint64_t times_ns[MOST_SAMPLES];
    CUstream stream;
    CUdeviceptr busy;
    CUdeviceptr range;
    CUresult failed; /* the first error; nothing is measured after it */
} self;

static bool fine(CUresult result) {
    if (result != CUDA_SUCCESS && self.failed == CUDA_SUCCESS)
        self.failed = result;
    return self.failed == CUDA_SUCCESS;
}

#define DO(symbol, ...) (void)(self.failed == CUDA_SUCCESS && fine(cu.symbol(__VA_ARGS__)))

#define TIMED(timed, symbol, ...)                                                                  \
    do {                                                                                           \
        uint64_t begin_ns = clock_ns();                                                            \
        DO(symbol, __VA_ARGS__);                                                                   \
        if (timed)                                                                                 \
            sample(clock_ns() - begin_ns);                                                         \
    } while (0)

static void sample(uint64_t ns) {
    if (self.used < self.samples)
        self.times_ns[self.used++] = ns;
}

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* The samples since the last figure are one. */
static void keep(const char *call, size_t mib, size_t handles, bool busy) {
    if (self.failed == CUDA_SUCCESS && self.used > 0 && self.out->count < COSTS_MOST) {
        struct cost *cost = &self.out->list[self.out->count++];
        qsort(self.times_ns, self.used, sizeof *self.times_ns, compare);
        *cost = (struct cost){.mib = (unsigned)mib,
                              .handles = (unsigned)handles,
                              .busy = busy,
                              .median_ns = self.times_ns[self.used / 2],
                              .high_ns = self.times_ns[self.used * 99 / 100]};
        text_copy(cost->call, sizeof cost->call, call);
    }
    self.used = 0;
}

/* Work in another place, for some ten milliseconds on a card. */
static void keep_busy(bool busy) {
    for (int i = 0; busy && i < BUSY_FILLS; i++)
        DO(cuMemsetD8Async, self.busy, (unsigned char)i, BUSY_MIB * MEBIBYTE, self.stream);
}

/* --- one kind of memory --- */

static void plain(size_t mib) {
    for (int freeing = 0; freeing < 2; freeing++) {
        for (size_t i = 0; i < self.samples + WARM_UP; i++) {
            CUdeviceptr pointer = 0;
            TIMED(!freeing && i >= WARM_UP, cuMemAlloc_v2, &pointer, mib * MEBIBYTE);
            TIMED(freeing && i >= WARM_UP, cuMemFree_v2, pointer);
        }
        keep(freeing ? "cuMemFree" : "cuMemAlloc", mib, 1, false);
    }
}

enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, STEPS };

static const char *const step_names[STEPS] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                              "cuMemUnmap", "cuMemRelease"};

struct life {
    CUmemAllocationProp properties;
    size_t mib, handles;
    enum step timed;
    bool busy;
    bool together; /* access and unmapping are one call for all */
};

static void begin(const struct life *life, CUmemGenericAllocationHandle *handles) {
    size_t bytes = life->mib * MEBIBYTE;
    for (size_t i = 0; i < life->handles; i++)
        TIMED(life->timed == CREATE, cuMemCreate, &handles[i], bytes, &life->properties, 0);
    for (size_t i = 0; i < life->handles; i++)
        TIMED(life->timed == MAP, cuMemMap, self.range + i * bytes, bytes, 0, handles[i], 0);
}

static void open_and_unmap(const struct life *life) {
    CUmemAccessDesc access = place_access();
    size_t calls = life->together ? 1 : life->handles;
    size_t bytes = life->handles / calls * life->mib * MEBIBYTE;
    keep_busy(life->busy && life->timed == ACCESS);
    for (size_t i = 0; i < calls; i++)
        TIMED(life->timed == ACCESS, cuMemSetAccess, self.range + i * bytes, bytes, &access, 1);
    DO(cuMemsetD8Async, self.range, 7, calls * bytes, self.stream); /* it is really used */
    DO(cuStreamSynchronize, self.stream);
    keep_busy(life->busy && life->timed == UNMAP);
    for (size_t i = 0; i < calls; i++)
        TIMED(life->timed == UNMAP, cuMemUnmap, self.range + i * bytes, bytes);
}

static void live(const struct life *life, const char *name) {
    CUmemGenericAllocationHandle handles[RANGE_PAGES];
    for (size_t i = 0; i < WARM_UP + self.samples && self.used < self.samples; i++) {
        if (i == WARM_UP)
            self.used = 0;
        begin(life, handles);
        open_and_unmap(life);
        for (size_t j = 0; j < life->handles; j++)
            TIMED(life->timed == RELEASE, cuMemRelease, handles[j]);
        DO(cuStreamSynchronize, self.stream);
        if (i < WARM_UP)
            self.used = 0;
    }
    bool all = life->together && (life->timed == ACCESS || life->timed == UNMAP);
    keep(name, life->mib, all ? life->handles : 1, life->busy);
}

static void mapped(size_t mib) {
    struct life life = {.properties = place_properties(), .mib = mib, .handles = 1};
    for (int step = CREATE; step < STEPS; step++) {
        life.timed = (enum step)step;
        live(&life, step_names[step]);
    }
    life.busy = true;
    for (int step = ACCESS; step <= UNMAP && mib == 2; step++) {
        life.timed = (enum step)step;
        live(&life, step_names[step]);
    }
}

/* One call over many handles; its counterpart, many calls, is the row of one handle. */
static void many(void) {
    struct life life = {
        .properties = place_properties(), .mib = 2, .handles = RANGE_PAGES, .together = true};
    for (int step = ACCESS; step <= UNMAP; step++) {
        life.timed = (enum step)step;
        live(&life, step_names[step]);
    }
}

/* Drivers before 12.2 have none; that is no error. */
static void in_host(void) {
    static const char *const names[STEPS] = {"host cuMemCreate", "host cuMemMap",
                                             "host cuMemSetAccess", "host cuMemUnmap",
                                             "host cuMemRelease"};
    struct life life = {.properties = place_properties(), .mib = 2, .handles = 1};
    CUmemGenericAllocationHandle handle;
    life.properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    if (cu.cuMemCreate(&handle, PAGE_BYTES, &life.properties, 0) != CUDA_SUCCESS)
        return;
    DO(cuMemRelease, handle);
    for (int step = CREATE; step < STEPS; step++) {
        life.timed = (enum step)step;
        live(&life, names[step]);
    }
}

static void small_calls(void) {
    CUevent event = NULL;
    CUdeviceptr range = 0;
    size_t free_bytes, total_bytes;
    DO(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuEventRecord, event, self.stream);
    keep("cuEventRecord", 0, 1, false);
    DO(cuStreamSynchronize, self.stream);
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuEventQuery, event);
    keep("cuEventQuery", 0, 1, false);
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuStreamQuery, self.stream);
    keep("cuStreamQuery", 0, 1, false);
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    keep("cuMemGetInfo", 0, 1, false);
    for (size_t i = 0; i < self.samples; i++) {
        TIMED(true, cuMemAddressReserve, &range, 128 * MEBIBYTE, 0, 0, 0);
        DO(cuMemAddressFree, range, 128 * MEBIBYTE);
    }
    keep("cuMemAddressReserve", 128, 1, false);
    DO(cuEventDestroy_v2, event);
}

/* --- speed --- */

enum { SPEED_MIB = 64, ROUNDS = 8 };

static uint64_t per_us(uint64_t bytes, uint64_t ns) {
    return ns ? bytes * 1000 / ns : 0;
}

static uint64_t speed_of(CUdeviceptr at, bool gather) {
    size_t half = SPEED_MIB / 2 * MEBIBYTE;
    uint64_t best = 0;
    for (int i = 0; i < ROUNDS && self.failed == CUDA_SUCCESS; i++) {
        uint64_t begin_ns = clock_ns();
        if (gather)
            fine(pattern_gather(self.stream, at, SPEED_MIB * MEBIBYTE / 4, self.busy));
        else
            DO(cuMemcpyDtoDAsync_v2, at, at + half, half, self.stream);
        DO(cuStreamSynchronize, self.stream);
        uint64_t bytes = gather ? (uint64_t)GATHER_THREADS * GATHER_READS * 4 : 2 * half;
        best = max_u64(best, per_us(bytes, clock_ns() - begin_ns));
    }
    return best;
}

static void speeds(void) {
    static const char *const names[SPEEDS] = {"copy", "gather"};
    struct place place;
    CUdeviceptr pointer = 0;
    DO(cuMemAlloc_v2, &pointer, SPEED_MIB * MEBIBYTE);
    if (!fine(place_make(&place, SPEED_MIB / 2)))
        return;
    for (int i = 0; i < SPEEDS; i++) {
        text_copy(self.out->speeds[i].what, sizeof self.out->speeds[i].what, names[i]);
        self.out->speeds[i].plain = speed_of(pointer, i);
        self.out->speeds[i].pages = speed_of(place.at, i);
    }
    fine(place_end(&place));
    DO(cuMemFree_v2, pointer);
}

CUresult costs_measure(size_t samples, struct costs *out) {
    static const size_t sizes_mib[] = {2, 32, 128};
    self.out = out;
    self.samples = min_u64(samples, MOST_SAMPLES);
    DO(cuStreamCreate, &self.stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAlloc_v2, &self.busy, BUSY_MIB * MEBIBYTE);
    DO(cuMemAddressReserve, &self.range, RANGE_PAGES * PAGE_BYTES, 0, 0, 0);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes_mib); i++) {
        plain(sizes_mib[i]);
        mapped(sizes_mib[i]);
    }
    many();
    in_host();
    small_calls();
    speeds();
    DO(cuMemAddressFree, self.range, RANGE_PAGES * PAGE_BYTES);
    DO(cuMemFree_v2, self.busy);
    return self.failed;
}
