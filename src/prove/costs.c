/* costs.c: see costs.h. cuMemAlloc and cuMemFree stand for cudaMalloc and cudaFree, which call
 * them. */
#include "prove/costs.h"

#include "prove/check.h"
#include "prove/pattern.h"

#include <pthread.h>
#include <stdatomic.h>
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

/* Work in another place, for some ten milliseconds on a card. */
static void keep_busy(void) {
    for (int i = 0; i < BUSY_FILLS; i++)
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
    const char *beside; /* "work", or what the caller has begun; NULL: nothing */
    bool together;      /* access and unmapping are one call for all */
};

static void begin(const struct life *life, CUmemGenericAllocationHandle *handles) {
    size_t bytes = life->mib * MEBIBYTE;
    for (size_t i = 0; i < life->handles; i++)
        TIMED(life->timed == CREATE, cuMemCreate, &handles[i], bytes, &life->properties, 0);
    for (size_t i = 0; i < life->handles; i++)
        TIMED(life->timed == MAP, cuMemMap, self.range + i * bytes, bytes, 0, handles[i], 0);
}

/* Beside the step that is timed. */
static void begin_work(const struct life *life, enum step step) {
    if (life->timed == step && life->beside && strcmp(life->beside, "work") == 0)
        keep_busy();
}

static void open_and_unmap(const struct life *life) {
    CUmemAccessDesc access = place_access();
    size_t calls = life->together ? 1 : life->handles;
    size_t bytes = life->handles / calls * life->mib * MEBIBYTE;
    begin_work(life, ACCESS);
    for (size_t i = 0; i < calls; i++)
        TIMED(life->timed == ACCESS, cuMemSetAccess, self.range + i * bytes, bytes, &access, 1);
    DO(cuMemsetD8Async, self.range, 7, calls * bytes, self.stream); /* it is really used */
    DO(cuStreamSynchronize, self.stream);
    begin_work(life, UNMAP);
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
    keep(name, life->mib, all ? life->handles : 1, life->beside ? life->beside : "");
}

static void mapped(size_t mib) {
    struct life life = {.properties = place_properties(), .mib = mib, .handles = 1};
    for (int step = CREATE; step < STEPS; step++) {
        life.timed = (enum step)step;
        live(&life, step_names[step]);
    }
    life.beside = "work";
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
    keep("cuEventRecord", 0, 1, "");
    DO(cuStreamSynchronize, self.stream);
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuEventQuery, event);
    keep("cuEventQuery", 0, 1, "");
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuStreamQuery, self.stream);
    keep("cuStreamQuery", 0, 1, "");
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    keep("cuMemGetInfo", 0, 1, "");
    for (size_t i = 0; i < self.samples; i++) {
        TIMED(true, cuMemAddressReserve, &range, 128 * MEBIBYTE, 0, 0, 0);
        DO(cuMemAddressFree, range, 128 * MEBIBYTE);
    }
    keep("cuMemAddressReserve", 128, 1, "");
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

/* --- beside kernels, and launches beside page calls --- */

enum { KERNEL_MS = 200, TRIES = 3 };

/* Whether the call came back only when the kernel beside it was over. */
static bool unmap_beside_kernel(CUevent event) {
    struct place place;
    bool ours = fine(place_make(&place, 1)) && fine(work_for(self.stream, KERNEL_MS));
    if (!ours)
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

static struct {
    atomic_bool over;
    CUdeviceptr range; /* of the thread that moves pages */
    CUstream stream;   /* of the one that launches */
    CUresult failed;
} other;

static void *move_pages(void *argument) {
    CUmemAllocationProp properties = place_properties();
    CUmemAccessDesc access = place_access();
    CUmemGenericAllocationHandle handle;
    (void)argument;
    CUresult result = driver_bind();
    while (result == CUDA_SUCCESS && !atomic_load(&other.over)) {
        result = cu.cuMemCreate(&handle, PAGE_BYTES, &properties, 0);
        if (result == CUDA_SUCCESS)
            result = cu.cuMemMap(other.range, PAGE_BYTES, 0, handle, 0);
        if (result == CUDA_SUCCESS)
            result = cu.cuMemSetAccess(other.range, PAGE_BYTES, &access, 1);
        if (result == CUDA_SUCCESS)
            result = cu.cuMemUnmap(other.range, PAGE_BYTES);
        if (result == CUDA_SUCCESS)
            result = cu.cuMemRelease(handle);
    }
    other.failed = result;
    return NULL;
}

static void *launch_kernels(void *argument) {
    (void)argument;
    CUresult result = driver_bind();
    while (result == CUDA_SUCCESS && !atomic_load(&other.over)) {
        for (int i = 0; i < 64 && result == CUDA_SUCCESS; i++)
            result = work_nothing(other.stream);
        if (result == CUDA_SUCCESS)
            result = cu.cuStreamSynchronize(other.stream);
    }
    other.failed = result;
    return NULL;
}

/* Runs the measurement while another thread does that all the time. */
static void beside(void *(*thread)(void *), void (*measured)(const char *), const char *what) {
    pthread_t running;
    atomic_store(&other.over, false);
    bool started = pthread_create(&running, NULL, thread, NULL) == 0;
    if (started)
        measured(what);
    atomic_store(&other.over, true);
    if (started)
        pthread_join(running, NULL);
    fine(started ? other.failed : CUDA_ERROR_OPERATING_SYSTEM);
}

static void launching(const char *what) {
    for (size_t i = 0; i < self.samples + WARM_UP && self.failed == CUDA_SUCCESS; i++) {
        uint64_t begin_ns = clock_ns();
        fine(work_nothing(self.stream));
        if (i >= WARM_UP)
            sample(clock_ns() - begin_ns);
    }
    DO(cuStreamSynchronize, self.stream);
    keep("cuLaunchKernel", 0, 1, what);
}

static void moving(const char *what) {
    struct life life = {.properties = place_properties(), .mib = 2, .handles = 1, .beside = what};
    for (int step = CREATE; step < STEPS; step++) {
        life.timed = (enum step)step;
        live(&life, step_names[step]);
    }
}

static void reading(const char *what) {
    size_t free_bytes, total_bytes;
    for (size_t i = 0; i < self.samples; i++)
        TIMED(true, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    keep("cuMemGetInfo", 0, 1, what);
}

static void side_by_side(void) {
    unmapping();
    DO(cuStreamCreate, &other.stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAddressReserve, &other.range, PAGE_BYTES, 0, 0, 0);
    if (self.failed != CUDA_SUCCESS)
        return;
    launching("");
    beside(move_pages, launching, "page calls");
    beside(launch_kernels, moving, "launches");
    beside(launch_kernels, reading, "launches");
    DO(cuMemAddressFree, other.range, PAGE_BYTES);
    DO(cuStreamDestroy_v2, other.stream);
}

/* --- all of them --- */

static void on_device(void) {
    static const size_t sizes_mib[] = {2, 32, 128};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes_mib); i++) {
        plain(sizes_mib[i]);
        mapped(sizes_mib[i]);
    }
    many();
    small_calls();
    speeds();
}

const char *const costs_groups[COSTS_GROUPS] = {"memory of the device", "side by side",
                                                "memory of the host"};

CUresult costs_measure(size_t group, size_t samples, struct costs *out) {
    static void (*const measure[COSTS_GROUPS])(void) = {on_device, side_by_side, in_host};
    self.out = out;
    self.samples = min_u64(samples, MOST_SAMPLES);
    DO(cuStreamCreate, &self.stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAlloc_v2, &self.busy, BUSY_MIB * MEBIBYTE);
    DO(cuMemAddressReserve, &self.range, RANGE_PAGES * PAGE_BYTES, 0, 0, 0);
    measure[group]();
    DO(cuMemAddressFree, self.range, RANGE_PAGES * PAGE_BYTES);
    DO(cuMemFree_v2, self.busy);
    return self.failed;
}
