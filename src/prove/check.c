/* check.c: see check.h. Its kernels are text (kernels.ptx), which the driver compiles. */
#include "prove/check.h"

#include <pthread.h>
#include <stdio.h>

enum form check_form;
size_t check_spare_bytes;
bool *check_unmap_waits;

enum outcome check_refused(struct text *said, const char *call, CUresult result) {
    text_format(said, "%s%s: %s", said->length ? "; " : "", call, driver_error_name(result));
    return CHECK_FAILED;
}

void check_number(unsigned char *bytes, size_t count, unsigned first) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + first + i / 251);
}

enum outcome check_patterns(struct text *said) {
    uint64_t wrong = 0;
    WORKS("cuCtxSynchronize", pattern_wrong(&wrong));
    EXPECT(wrong == 0, "%lu words or uses were wrong", wrong);
    return CHECK_PASSED;
}

/* --- places --- */

CUmemAllocationProp place_properties(void) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = driver_device()},
    };
}

CUmemAccessDesc place_access(void) {
    return (CUmemAccessDesc){
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = driver_device()},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
}

CUresult place_create(struct place *place, size_t pages) {
    CUmemAllocationProp properties = place_properties();
    place->pages = pages;
    TRY(cu.cuMemAddressReserve(&place->at, pages * PAGE_BYTES, 0, 0, 0));
    for (size_t i = 0; i < pages; i++)
        TRY(cu.cuMemCreate(&place->handles[i], PAGE_BYTES, &properties, 0));
    return CUDA_SUCCESS;
}

CUresult place_map(struct place *place) {
    CUmemAccessDesc access = place_access();
    for (size_t i = 0; i < place->pages; i++)
        TRY(cu.cuMemMap(place->at + i * PAGE_BYTES, PAGE_BYTES, 0, place->handles[i], 0));
    return cu.cuMemSetAccess(place->at, place->pages * PAGE_BYTES, &access, 1);
}

CUresult place_make(struct place *place, size_t pages) {
    TRY(place_create(place, pages));
    return place_map(place);
}

CUresult place_end(struct place *place) {
    TRY(cu.cuMemUnmap(place->at, place->pages * PAGE_BYTES));
    for (size_t i = 0; i < place->pages; i++)
        TRY(cu.cuMemRelease(place->handles[i]));
    return cu.cuMemAddressFree(place->at, place->pages * PAGE_BYTES);
}

/* ---- work ---- */

/* fill   (p, words, seed)           p[i] = i * PATTERN_FACTOR + seed
 * check  (p, words, seed, count)    *count += number of words that are not so
 * spin   (cycles)                   one thread that waits so long */
extern const char kernels_ptx[];

enum { BLOCK = 256, GRID = 256 }; /* so many threads keep any card busy; none needs so many */

static struct {
    CUfunction fill, check, spin;
    CUdeviceptr counter;
    uint64_t cycles_per_ms;
    unsigned long errors_before;
    int (*touch)(CUstream, unsigned long long, size_t, unsigned char);
    int (*expect)(CUstream, unsigned long long, size_t, unsigned char);
    int (*use)(CUstream, unsigned long long, size_t, int);
    int (*hold)(CUstream);
    int (*release)(CUstream);
    pthread_t ender; /* of work_for, on the simulated device */
    unsigned end_ms;
    bool ending;
} self;

static CUresult find_simulated(void) {
    self.touch = (__typeof__(self.touch))driver_symbol("simgpu_touch");
    self.expect = (__typeof__(self.expect))driver_symbol("simgpu_expect");
    self.use = (__typeof__(self.use))driver_symbol("simgpu_use");
    self.hold = (__typeof__(self.hold))driver_symbol("simgpu_hold");
    self.release = (__typeof__(self.release))driver_symbol("simgpu_release");
    self.errors_before = driver_errors();
    return self.touch && self.expect && self.use && self.hold && self.release
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_FOUND;
}

/* A kernel that is loaded when it is first launched (lazy loading) would wait for running work, and
 * what is to run beside that work would run after it. */
static CUresult warm_up(void) {
    CUdeviceptr at;
    TRY(cu.cuMemAlloc_v2(&at, sizeof(uint32_t)));
    TRY(pattern_write(0, at, sizeof(uint32_t), 1));
    TRY(pattern_check(0, at, sizeof(uint32_t), 1));
    TRY(work_begin(0, 0));
    TRY(work_end(0));
    TRY(cu.cuCtxSynchronize());
    return cu.cuMemFree_v2(at);
}

CUresult pattern_open(void) {
    CUmodule module;
    int khz = 0;
    TRY(cu.cuModuleLoadData(&module, kernels_ptx));
    TRY(cu.cuModuleGetFunction(&self.fill, module, "fill"));
    TRY(cu.cuModuleGetFunction(&self.check, module, "check"));
    TRY(cu.cuModuleGetFunction(&self.spin, module, "spin"));
    TRY(cu.cuMemAlloc_v2(&self.counter, sizeof(uint64_t)));
    TRY(cu.cuMemsetD8_v2(self.counter, 0, sizeof(uint64_t)));
    cu.cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, driver_device());
    /* Where the driver tells none: cards run at 1 to 3 GHz, and only WORK_MS depends on it. */
    self.cycles_per_ms = khz > 100000 ? (uint64_t)khz : 1500000;
    if (driver_is_simulated())
        TRY(find_simulated());
    return warm_up();
}

static CUresult launch(CUfunction function, CUstream stream, void **arguments) {
    return cu.cuLaunchKernel(function, GRID, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL);
}

/* The simulated device's own patterns are of one byte, and cost the host's time: the first bytes of
 * each page tell the pages apart. All of the range must be mapped and open. */
static CUresult simulate(int (*look)(CUstream, unsigned long long, size_t, unsigned char),
                         CUstream stream, CUdeviceptr at, size_t bytes, uint32_t seed) {
    enum { SAMPLE = 256 };
    unsigned char value = (unsigned char)(seed ^ seed >> 8 ^ seed >> 16 ^ seed >> 24);
    CUdeviceptr end = at + bytes;
    int result = self.use(stream, at, bytes, look == self.touch);
    for (; at < end && result == CUDA_SUCCESS; at = (at / PAGE_BYTES + 1) * PAGE_BYTES)
        result = look(stream, at, min_u64(SAMPLE, end - at), value);
    return (CUresult)result;
}

CUresult pattern_write(CUstream stream, CUdeviceptr at, size_t bytes, uint32_t seed) {
    uint64_t words = bytes / 4;
    if (self.touch)
        return simulate(self.touch, stream, at, bytes, seed);
    return launch(self.fill, stream, (void *[]){&at, &words, &seed});
}

CUresult pattern_check(CUstream stream, CUdeviceptr at, size_t bytes, uint32_t seed) {
    uint64_t words = bytes / 4;
    if (self.expect)
        return simulate(self.expect, stream, at, bytes, seed);
    return launch(self.check, stream, (void *[]){&at, &words, &seed, &self.counter});
}

CUresult pattern_wrong(uint64_t *wrong) {
    uint64_t count = 0;
    CUresult result = cu.cuCtxSynchronize();
    if (result == CUDA_SUCCESS)
        result = cu.cuMemcpyDtoH_v2(&count, self.counter, sizeof count);
    *wrong = self.expect ? driver_errors() - self.errors_before : count;
    return result;
}

CUresult pattern_forget(void) {
    self.errors_before = driver_errors();
    return cu.cuMemsetD8_v2(self.counter, 0, sizeof(uint64_t));
}

static CUresult spin(CUstream stream, uint64_t cycles) {
    return cu.cuLaunchKernel(self.spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&cycles}, NULL);
}

CUresult work_begin(CUstream stream, unsigned milliseconds) {
    return self.hold ? (CUresult)self.hold(stream)
                     : spin(stream, self.cycles_per_ms * milliseconds);
}

CUresult work_end(CUstream stream) {
    if (!self.ending)
        return self.release ? (CUresult)self.release(stream) : CUDA_SUCCESS;
    self.ending = false;
    pthread_join(self.ender, NULL);
    return CUDA_SUCCESS;
}

static void *end_it(void *stream) {
    sleep_ns(self.end_ms * MILLISECOND_NS);
    driver_bind();
    self.release(stream);
    return NULL;
}

CUresult work_for(CUstream stream, unsigned milliseconds) {
    CUresult result = work_begin(stream, milliseconds);
    if (result != CUDA_SUCCESS || !self.hold)
        return result;
    self.end_ms = milliseconds;
    self.ending = pthread_create(&self.ender, NULL, end_it, stream) == 0;
    return self.ending ? CUDA_SUCCESS : work_end(stream);
}
