/* costs.c: see costs.h. cuMemAlloc and cuMemFree stand for cudaMalloc and cudaFree, which call
 * them. */
#include "prove/costs.h"

#include "prove/check.h"
#include "prove/pattern.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A first call of a kind may load and make what later ones find: it is not counted. */
enum { MOST_SAMPLES = 200, WARM_UP = 2 };

/* The steps of a page's life. Each has its samples; other calls take the place of a step. */
enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, STEPS };

static struct {
    struct costs *out;
    size_t rounds, round;
    bool warm;
    struct samples {
        size_t used;
        uint64_t ns[MOST_SAMPLES];
    } of[STEPS];
    CUstream stream;
    CUdeviceptr range;
    CUresult failed; /* the first error; nothing is measured after it */
} self;

static bool fine(CUresult result) {
    if (result != CUDA_SUCCESS && self.failed == CUDA_SUCCESS)
        self.failed = result;
    return self.failed == CUDA_SUCCESS;
}

static void note_sample(enum step step, uint64_t ns) {
    struct samples *samples = &self.of[step];
    if (self.warm && samples->used < MOST_SAMPLES)
        samples->ns[samples->used++] = ns;
}

#define DO(symbol, ...) (void)(self.failed == CUDA_SUCCESS && fine(cu.symbol(__VA_ARGS__)))

#define TIMED(step, symbol, ...)                                                                   \
    do {                                                                                           \
        uint64_t begin_ns = clock_ns();                                                            \
        DO(symbol, __VA_ARGS__);                                                                   \
        note_sample(step, clock_ns() - begin_ns);                                                  \
    } while (0)

/* False when all rounds are over, or something failed. */
static bool next_round(void) {
    bool more = self.round < WARM_UP + self.rounds && !self.failed;
    self.warm = self.round >= WARM_UP;
    self.round = more ? self.round + 1 : 0;
    return more;
}

static int compare_ns(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Makes a figure of the samples of a step, and forgets them; call NULL: only forgets them. */
static void keep_cost(enum step step, const char *call, size_t mib, size_t handles,
                      const char *beside) {
    struct samples *samples = &self.of[step];
    if (call && !self.failed && samples->used > 0 && self.out->count < COSTS_MOST) {
        struct cost *cost = &self.out->list[self.out->count++];
        qsort(samples->ns, samples->used, sizeof *samples->ns, compare_ns);
        *cost = (struct cost){.mib = (unsigned)mib,
                              .handles = (unsigned)handles,
                              .median_ns = samples->ns[samples->used / 2],
                              .high_ns = samples->ns[samples->used * 99 / 100]};
        text_copy(cost->call, sizeof cost->call, call);
        text_copy(cost->beside, sizeof cost->beside, beside);
    }
    samples->used = 0;
}

/* --- one kind of memory --- */

static void plain(size_t mib) {
    CUdeviceptr pointer = 0;
    while (next_round()) {
        TIMED(CREATE, cuMemAlloc_v2, &pointer, mib * MEBIBYTE);
        TIMED(RELEASE, cuMemFree_v2, pointer);
    }
    keep_cost(CREATE, "cuMemAlloc", mib, 1, "");
    keep_cost(RELEASE, "cuMemFree", mib, 1, "");
}

/* Handles in a row, all of them opened and unmapped by one call, and really used. */
static void live(const CUmemAllocationProp *properties, size_t mib, size_t count) {
    CUmemGenericAllocationHandle handles[PLACE_PAGES];
    CUmemAccessDesc access = place_access();
    size_t bytes = mib * MEBIBYTE;
    for (size_t i = 0; i < count; i++)
        TIMED(CREATE, cuMemCreate, &handles[i], bytes, properties, 0);
    for (size_t i = 0; i < count; i++)
        TIMED(MAP, cuMemMap, self.range + i * bytes, bytes, 0, handles[i], 0);
    TIMED(ACCESS, cuMemSetAccess, self.range, count * bytes, &access, 1);
    DO(cuMemsetD8Async, self.range, 7, count * bytes, self.stream);
    DO(cuStreamSynchronize, self.stream);
    TIMED(UNMAP, cuMemUnmap, self.range, count * bytes);
    for (size_t i = 0; i < count; i++)
        TIMED(RELEASE, cuMemRelease, handles[i]);
}

/* names: NULL where that step is none of the figures. */
static void mapped(CUmemAllocationProp properties, size_t mib, size_t handles,
                   const char *const names[STEPS], const char *beside) {
    while (next_round())
        live(&properties, mib, handles);
    for (int step = CREATE; step < STEPS; step++)
        keep_cost((enum step)step, names[step], mib, handles, beside);
}

static void small_calls(void) {
    CUevent event = NULL;
    size_t free_bytes, total_bytes;
    DO(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    while (next_round()) {
        TIMED(CREATE, cuEventRecord, event, self.stream);
        DO(cuStreamSynchronize, self.stream);
        TIMED(MAP, cuEventQuery, event);
        TIMED(ACCESS, cuStreamQuery, self.stream);
        TIMED(UNMAP, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    }
    keep_cost(CREATE, "cuEventRecord", 0, 1, "");
    keep_cost(MAP, "cuEventQuery", 0, 1, "");
    keep_cost(ACCESS, "cuStreamQuery", 0, 1, "");
    keep_cost(UNMAP, "cuMemGetInfo", 0, 1, "");
    DO(cuEventDestroy_v2, event);
}

/* --- beside a kernel --- */

/* So long that no call takes it by itself, nor a host that is busy in all of three tries. */
enum { KERNEL_MS = 200, TRIES = 3 };

/* True where the call came back only when the kernel beside it was over. */
static bool unmap_beside_kernel(CUevent event) {
    struct place place;
    if (!fine(place_make(&place, 1)) || !fine(work_for(self.stream, KERNEL_MS)))
        return false;
    DO(cuEventRecord, event, self.stream);
    TIMED(UNMAP, cuMemUnmap, place.at, PAGE_BYTES);
    bool over = cu.cuEventQuery(event) == CUDA_SUCCESS;
    DO(cuStreamSynchronize, self.stream);
    fine(work_end(self.stream));
    DO(cuMemRelease, place.handles[0]);
    DO(cuMemAddressFree, place.at, PAGE_BYTES);
    return over;
}

/* Once it did not wait: it does not. */
static void unmapping(void) {
    CUevent event = NULL;
    bool waits = true;
    self.warm = true;
    DO(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < TRIES && waits; i++)
        waits = unmap_beside_kernel(event);
    keep_cost(UNMAP, "cuMemUnmap", 2, 1, "a 200 ms kernel");
    self.out->unmap_waits = waits && self.failed == CUDA_SUCCESS;
    DO(cuEventDestroy_v2, event);
}

/* --- beside another thread that launches all the time, as a program at work does --- */

static const char *const names_of_page[STEPS] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                                 "cuMemUnmap", "cuMemRelease"};

static struct {
    atomic_bool over;
    CUstream stream;
    CUresult failed;
} launching;

static void *launch_kernels(void *unused) {
    CUresult result = driver_bind();
    while (result == CUDA_SUCCESS && !atomic_load(&launching.over)) {
        for (int i = 0; i < 64 && result == CUDA_SUCCESS; i++)
            result = work_nothing(launching.stream);
        if (result == CUDA_SUCCESS)
            result = cu.cuStreamSynchronize(launching.stream);
    }
    launching.failed = result;
    return unused;
}

static void beside_launches(void) {
    pthread_t thread;
    DO(cuStreamCreate, &launching.stream, CU_STREAM_NON_BLOCKING);
    if (self.failed || pthread_create(&thread, NULL, launch_kernels, NULL) != 0)
        return;
    mapped(place_properties(), 2, 1, names_of_page, "launches");
    atomic_store(&launching.over, true);
    pthread_join(thread, NULL);
    fine(launching.failed);
    DO(cuStreamDestroy_v2, launching.stream);
}

/* --- all of them --- */

static void measure_all(void) {
    static const size_t sizes_mib[] = {2, 32, 128};
    static const char *const of_many[STEPS] = {[ACCESS] = "cuMemSetAccess", [UNMAP] = "cuMemUnmap"};
    unmapping();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes_mib); i++) {
        plain(sizes_mib[i]);
        mapped(place_properties(), sizes_mib[i], 1, names_of_page, "");
    }
    mapped(place_properties(), 2, PLACE_PAGES, of_many, "");
    beside_launches();
    small_calls();
}

CUresult costs_measure(size_t samples, struct costs *out) {
    self.out = out;
    self.rounds = min_u64(samples, MOST_SAMPLES);
    DO(cuStreamCreate, &self.stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAddressReserve, &self.range, PLACE_PAGES * PAGE_BYTES, 0, 0, 0);
    measure_all();
    DO(cuMemAddressFree, self.range, PLACE_PAGES * PAGE_BYTES);
    DO(cuStreamDestroy_v2, self.stream);
    return self.failed;
}
