/* costs.c: what the driver's calls for memory cost on this machine's card, as JSON on standard
 * output. The page engine's decisions follow from such figures (README.md). It must run on any
 * machine with a driver: CUDA is looked up when it runs, nothing of the toolkit is needed, and
 * cuMemAlloc and cuMemFree stand for cudaMalloc and cudaFree, which call them.
 *
 *   costs [SAMPLES]    of each figure; 100 if left out. */
#include <cuda.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

enum { MOST_SAMPLES = 10000, RANGE_MIB = 128, BUSY_MIB = 256, BUSY_FILLS = 16, WARM_UP = 3 };

/* Every function of the driver that is used, with the name that it has there. */
#define FUNCTIONS(X)                                                                               \
    X(cuInit, "cuInit")                                                                            \
    X(cuDriverGetVersion, "cuDriverGetVersion")                                                    \
    X(cuDeviceGet, "cuDeviceGet")                                                                  \
    X(cuDeviceGetName, "cuDeviceGetName")                                                          \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                        \
    X(cuCtxSetCurrent, "cuCtxSetCurrent")                                                          \
    X(cuMemAlloc, "cuMemAlloc_v2")                                                                 \
    X(cuMemFree, "cuMemFree_v2")                                                                   \
    X(cuMemGetInfo, "cuMemGetInfo_v2")                                                             \
    X(cuMemsetD8Async, "cuMemsetD8Async")                                                          \
    X(cuMemAddressReserve, "cuMemAddressReserve")                                                  \
    X(cuMemAddressFree, "cuMemAddressFree")                                                        \
    X(cuMemCreate, "cuMemCreate")                                                                  \
    X(cuMemRelease, "cuMemRelease")                                                                \
    X(cuMemMap, "cuMemMap")                                                                        \
    X(cuMemUnmap, "cuMemUnmap")                                                                    \
    X(cuMemSetAccess, "cuMemSetAccess")                                                            \
    X(cuStreamCreate, "cuStreamCreate")                                                            \
    X(cuStreamSynchronize, "cuStreamSynchronize")                                                  \
    X(cuEventCreate, "cuEventCreate")                                                              \
    X(cuEventRecord, "cuEventRecord")                                                              \
    X(cuEventQuery, "cuEventQuery")

#define DECLARE(function, symbol) __typeof__(&function) function##_;
static struct { FUNCTIONS(DECLARE) } cuda;

static struct {
    void *library;
    size_t samples;
    size_t used; /* of the current figure */
    uint64_t times_ns[MOST_SAMPLES];
    bool printed; /* a figure stands before the next one */
    CUstream stream;
    CUdeviceptr busy; /* memory that is filled to keep the card at work */
} state;

static void check(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "costs: %s failed with CUDA error %d\n", what, (int)result);
    exit(1);
}

#define CALL(function, ...) check(cuda.function##_(__VA_ARGS__), #function)

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

#define TIMED(function, ...)                                                                       \
    do {                                                                                           \
        uint64_t begin_ns = now_ns();                                                              \
        CUresult result = cuda.function##_(__VA_ARGS__);                                           \
        sample(now_ns() - begin_ns);                                                               \
        check(result, #function);                                                                  \
    } while (0)

static void sample(uint64_t ns) {
    if (state.used < state.samples)
        state.times_ns[state.used++] = ns;
}

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Prints the figure that the samples taken since the last one make. handles: how many one call
 * worked on. */
static void print_figure(const char *call, size_t mib, size_t handles, bool busy) {
    qsort(state.times_ns, state.used, sizeof *state.times_ns, compare);
    uint64_t median = state.times_ns[state.used / 2];
    uint64_t high = state.times_ns[state.used * 99 / 100];
    printf("%s\n  {\"call\": \"%s\", \"mib\": %zu, \"handles\": %zu, \"busy\": %s, "
           "\"samples\": %zu, \"median_ns\": %llu, \"p99_ns\": %llu}",
           state.printed ? "," : "", call, mib, handles, busy ? "true" : "false", state.used,
           (unsigned long long)median, (unsigned long long)high);
    state.printed = true;
    state.used = 0;
}

static void *look_up(const char *symbol) {
    void *function = dlsym(state.library, symbol);
    if (!function) {
        fprintf(stderr, "costs: the driver has no %s\n", symbol);
        exit(1);
    }
    return function;
}

static void load_driver(void) {
    state.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!state.library) {
        fprintf(stderr, "costs: no CUDA driver here (libcuda.so.1)\n");
        exit(3);
    }
#define LOOK_UP(function, symbol) cuda.function##_ = (__typeof__(cuda.function##_))look_up(symbol);
    FUNCTIONS(LOOK_UP)
}

static const CUmemAllocationProp on_device = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};
static const CUmemAccessDesc read_and_write = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

/* Work in another place, for some ten milliseconds on a card. */
static void keep_busy(bool busy) {
    for (int i = 0; busy && i < BUSY_FILLS; i++)
        CALL(cuMemsetD8Async, state.busy, (unsigned char)i, BUSY_MIB * MIB, state.stream);
}

/* Allocates and frees, each timed in a round of its own, because the samples are kept for one
 * figure at a time. */
static void plain_round(size_t mib, bool free_timed, bool busy) {
    for (size_t i = 0; i < state.samples + WARM_UP; i++) {
        CUdeviceptr pointer;
        if (i == WARM_UP)
            state.used = 0;
        keep_busy(busy && free_timed);
        if (free_timed) {
            CALL(cuMemAlloc, &pointer, mib * MIB);
            TIMED(cuMemFree, pointer);
        } else {
            TIMED(cuMemAlloc, &pointer, mib * MIB);
            CALL(cuMemFree, pointer);
        }
        CALL(cuStreamSynchronize, state.stream);
    }
    print_figure(free_timed ? "cuMemFree" : "cuMemAlloc", mib, 1, busy && free_timed);
}

enum step { CREATE, MAP, SET_ACCESS, UNMAP, RELEASE };

static const char *const step_names[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
                                         "cuMemRelease"};

/* The calls for each handle, the one of them timed that is wanted. */
static void create_and_map(CUdeviceptr range, size_t mib, size_t count, enum step timed,
                           CUmemGenericAllocationHandle *handles) {
    for (size_t i = 0; i < count; i++) {
        if (timed == CREATE)
            TIMED(cuMemCreate, &handles[i], mib * MIB, &on_device, 0);
        else
            CALL(cuMemCreate, &handles[i], mib * MIB, &on_device, 0);
    }
    for (size_t i = 0; i < count; i++) {
        if (timed == MAP)
            TIMED(cuMemMap, range + i * mib * MIB, mib * MIB, 0, handles[i], 0);
        else
            CALL(cuMemMap, range + i * mib * MIB, mib * MIB, 0, handles[i], 0);
    }
}

static void release(size_t count, enum step timed, CUmemGenericAllocationHandle *handles) {
    for (size_t i = 0; i < count; i++) {
        if (timed == RELEASE)
            TIMED(cuMemRelease, handles[i]);
        else
            CALL(cuMemRelease, handles[i]);
    }
}

/* Creates, maps, opens, unmaps and releases `count` handles; access and unmapping are one call for
 * all of them. */
static void one_life(CUdeviceptr range, size_t mib, size_t count, enum step timed, bool busy) {
    CUmemGenericAllocationHandle handles[RANGE_MIB / 2];
    create_and_map(range, mib, count, timed, handles);
    if (timed == SET_ACCESS) {
        keep_busy(busy);
        TIMED(cuMemSetAccess, range, count * mib * MIB, &read_and_write, 1);
    } else {
        CALL(cuMemSetAccess, range, count * mib * MIB, &read_and_write, 1);
    }
    CALL(cuMemsetD8Async, range, 7, count * mib * MIB, state.stream); /* it is really used */
    CALL(cuStreamSynchronize, state.stream);
    keep_busy(busy && timed == UNMAP);
    if (timed == UNMAP)
        TIMED(cuMemUnmap, range, count * mib * MIB);
    else
        CALL(cuMemUnmap, range, count * mib * MIB);
    release(count, timed, handles);
    CALL(cuStreamSynchronize, state.stream);
}

static void mapped_round(CUdeviceptr range, size_t mib, size_t count, enum step timed, bool busy) {
    for (size_t i = 0; i < WARM_UP; i++)
        one_life(range, mib, count, timed, false);
    state.used = 0;
    while (state.used < state.samples)
        one_life(range, mib, count, timed, busy);
    bool together = timed == SET_ACCESS || timed == UNMAP;
    print_figure(step_names[timed], mib, together ? count : 1, busy);
}

static void time_memory(void) {
    static const size_t sizes_mib[] = {2, 8, 32, 128};
    CUdeviceptr range;
    CALL(cuMemAddressReserve, &range, RANGE_MIB * MIB, 0, 0, 0);
    for (size_t i = 0; i < sizeof sizes_mib / sizeof *sizes_mib; i++) {
        size_t mib = sizes_mib[i], batch = RANGE_MIB / mib;
        plain_round(mib, false, false);
        plain_round(mib, true, false);
        for (enum step step = CREATE; step <= RELEASE; step++)
            mapped_round(range, mib, 1, step, false);
        if (batch > 1) {
            mapped_round(range, mib, batch, SET_ACCESS, false);
            mapped_round(range, mib, batch, UNMAP, false);
        }
    }
    plain_round(2, true, true);
    mapped_round(range, 2, 1, SET_ACCESS, true);
    mapped_round(range, 2, 1, UNMAP, true);
    CALL(cuMemAddressFree, range, RANGE_MIB * MIB);
}

static void time_reservation(void) {
    CUdeviceptr range;
    for (size_t i = 0; i < state.samples; i++) {
        TIMED(cuMemAddressReserve, &range, RANGE_MIB * MIB, 0, 0, 0);
        CALL(cuMemAddressFree, range, RANGE_MIB * MIB);
    }
    print_figure("cuMemAddressReserve", RANGE_MIB, 1, false);
}

static void time_small_calls(void) {
    CUevent event;
    size_t free_bytes, total_bytes;
    CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    for (size_t i = 0; i < state.samples; i++)
        TIMED(cuEventRecord, event, state.stream);
    print_figure("cuEventRecord", 0, 1, false);
    CALL(cuStreamSynchronize, state.stream);
    for (size_t i = 0; i < state.samples; i++)
        TIMED(cuEventQuery, event);
    print_figure("cuEventQuery", 0, 1, false);
    for (size_t i = 0; i < state.samples; i++)
        TIMED(cuMemGetInfo, &free_bytes, &total_bytes);
    print_figure("cuMemGetInfo", 0, 1, false);
}

/* The version of the kernel's driver, such as 570.86.15; the simulated device has none. */
static void print_driver(int version) {
    char line[256] = "", number[32] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file) {
        if (!fgets(line, sizeof line, file))
            *line = 0;
        fclose(file);
    }
    for (char *word = strtok(line, " "); word && !*number; word = strtok(NULL, " "))
        if (word[0] >= '0' && word[0] <= '9' && strchr(word, '.'))
            snprintf(number, sizeof number, "%s", word);
    printf("\"driver\": \"%s\", \"cuda\": \"%d.%d\",\n", number, version / 1000,
           version % 1000 / 10);
}

static void print_head(CUdevice device) {
    char name[128] = "", date[16] = "";
    int version = 0;
    time_t now = time(NULL);
    struct tm calendar;
    CALL(cuDeviceGetName, name, sizeof name, device);
    CALL(cuDriverGetVersion, &version);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &calendar));
    printf("{\"card\": \"%s\", \"date\": \"%s\", \"simulated\": %s, ", name, date,
           dlsym(state.library, "simgpu_errors") ? "true" : "false");
    print_driver(version);
    printf("\"calls\": [");
}

int main(int argc, char **argv) {
    char *rest = "";
    CUdevice device;
    CUcontext context;
    state.samples = argc > 1 ? strtoul(argv[1], &rest, 10) : 100;
    if (argc > 2 || *rest || state.samples < 1 || state.samples > MOST_SAMPLES) {
        fprintf(stderr, "usage: costs [SAMPLES], 1 to %d\n", MOST_SAMPLES);
        return 2;
    }
    load_driver();
    if (cuda.cuInit_(0) != CUDA_SUCCESS || cuda.cuDeviceGet_(&device, 0) != CUDA_SUCCESS) {
        fprintf(stderr, "costs: the driver sees no device\n");
        return 3;
    }
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuStreamCreate, &state.stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemAlloc, &state.busy, BUSY_MIB * MIB);
    print_head(device);
    time_memory();
    time_reservation();
    time_small_calls();
    printf("\n]}\n");
    return 0;
}
