/* costs.c: see costs.h. cuMemAlloc and cuMemFree stand for cudaMalloc and cudaFree, which call
 * them. */
#include "prove/costs.h"

#include "prove/check.h"
#include "prove/pattern.h"

#include <stdlib.h>

enum { MOST_SAMPLES = 200, WARM_UP = 2 };

static struct {
    struct costs *out;
    size_t samples, used;
    uint64_t times_ns[MOST_SAMPLES];
    CUstream stream;
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
static void keep(const char *call, size_t mib, size_t handles, const char *beside) {
    if (self.failed == CUDA_SUCCESS && self.used > 0 && self.out->count < COSTS_MOST) {
        struct cost *cost = &self.out->list[self.out->count];
        qsort(self.times_ns, self.used, sizeof *self.times_ns, compare);
        *cost = (struct cost){.mib = (unsigned)mib,
                              .handles = (unsigned)handles,
                              .median_ns = self.times_ns[self.used / 2],
                              .high_ns = self.times_ns[self.used * 99 / 100]};
        text_copy(cost->call, sizeof cost->call, call);
        text_copy(cost->beside, sizeof cost->beside, beside);
        self.out->count++;
    }
    self.used = 0;
}

/* --- one kind of memory --- */

static void plain(size_t mib) {
    for (int freeing = 0; freeing < 2; freeing++) {
        for (size_t i = 0; i < self.samples + WARM_UP; i++) {
            CUdeviceptr pointer = 0;
            TIMED(!freeing && i >= WARM_UP, cuMemAlloc_v2, &pointer, mib * MEBIBYTE);
            TIMED(freeing && i >= WARM_UP, cuMemFree_v2, pointer);
        }
        keep(freeing ? "cuMemFree" : "cuMemAlloc", mib, 1, "");
    }
}

enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, STEPS };

static const char *const step_names[STEPS] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                              "cuMemUnmap", "cuMemRelease"};

struct life {
    CUmemAllocationProp properties;
    size_t mib, handles;
    enum step timed;
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
    for (size_t i = 0; i < calls; i++)
        TIMED(life->timed == ACCESS, cuMemSetAccess, self.range + i * bytes, bytes, &access, 1);
    DO(cuMemsetD8Async, self.range, 7, calls * bytes, self.stream); /* it is really used */
    DO(cuStreamSynchronize, self.stream);
    for (size_t i = 0; i < calls; i++)
        TIMED(life->timed == UNMAP, cuMemUnmap, self.range + i * bytes, bytes);
}

static void live(const struct life *life, const char *name) {
    CUmemGenericAllocationHandle handles[PLACE_PAGES];
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
    keep(name, life->mib, all ? life->handles : 1, "");
}

static void each_step(struct life life, const char *const *names, enum step first, enum step last) {
    for (life.timed = first; life.timed <= last; life.timed++)
        live(&life, names[life.timed]);
}

static void mapped(size_t mib) {
    struct life life = {.properties = place_properties(), .mib = mib, .handles = 1};
    each_step(life, step_names, CREATE, RELEASE);
}

/* One call over many handles; its counterpart, many calls, is the row of one handle. */
static void many(void) {
    struct life life = {
        .properties = place_properties(), .mib = 2, .handles = PLACE_PAGES, .together = true};
    each_step(life, step_names, ACCESS, UNMAP);
}

/* Drivers before 12.2 have none; that is no error. Compact needs none but for VRAMGC_SPILL. */
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
    each_step(life, names, CREATE, RELEASE);
}

#define EACH(name, symbol, ...)                                                                    \
    do {                                                                                           \
        for (size_t i = 0; i < self.samples; i++)                                                  \
            TIMED(true, symbol, __VA_ARGS__);                                                      \
        keep(name, 0, 1, "");                                                                      \
    } while (0)

static void small_calls(void) {
    CUevent event = NULL;
    size_t free_bytes, total_bytes;
    DO(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    EACH("cuEventRecord", cuEventRecord, event, self.stream);
    DO(cuStreamSynchronize, self.stream);
    EACH("cuEventQuery", cuEventQuery, event);
    EACH("cuStreamQuery", cuStreamQuery, self.stream);
    EACH("cuMemGetInfo", cuMemGetInfo_v2, &free_bytes, &total_bytes);
    DO(cuEventDestroy_v2, event);
}

/* --- beside a kernel --- */

enum { KERNEL_MS = 200, TRIES = 3 };

/* Whether the call came back only when the kernel beside it was over. */
static bool unmap_beside_kernel(CUevent event) {
    struct place place;
    if (!fine(place_make(&place, 1)) || !fine(work_for(self.stream, KERNEL_MS)))
        return false;
    DO(cuEventRecord, event, self.stream);
    TIMED(true, cuMemUnmap, place.at, PAGE_BYTES);
    bool over = cu.cuEventQuery(event) == CUDA_SUCCESS;
    DO(cuStreamSynchronize, self.stream);
    fine(work_end(self.stream));
    DO(cuMemRelease, place.handles[0]);
    DO(cuMemAddressFree, place.at, PAGE_BYTES);
    return over;
}

/* Once it did not wait: it does not. A busy host may be late by itself. */
static void unmapping(void) {
    CUevent event = NULL;
    bool waits = true;
    DO(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < TRIES && waits; i++)
        waits = unmap_beside_kernel(event);
    keep("cuMemUnmap", 2, 1, "a 200 ms kernel");
    self.out->unmap_waits = waits && self.failed == CUDA_SUCCESS;
    DO(cuEventDestroy_v2, event);
}

/* --- all of them --- */

static void on_device(void) {
    static const size_t sizes_mib[] = {2, 32, 128};
    unmapping();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes_mib); i++) {
        plain(sizes_mib[i]);
        mapped(sizes_mib[i]);
    }
    many();
    small_calls();
}

const char *const costs_groups[COSTS_GROUPS] = {"memory of the device", "memory of the host"};

CUresult costs_measure(size_t group, size_t samples, struct costs *out) {
    static void (*const measure[COSTS_GROUPS])(void) = {on_device, in_host};
    self.out = out;
    self.samples = min_u64(samples, MOST_SAMPLES);
    DO(cuStreamCreate, &self.stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAddressReserve, &self.range, PLACE_PAGES * PAGE_BYTES, 0, 0, 0);
    measure[group]();
    DO(cuMemAddressFree, self.range, PLACE_PAGES * PAGE_BYTES);
    DO(cuStreamDestroy_v2, self.stream);
    return self.failed;
}
