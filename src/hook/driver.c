/* driver.c: wrappers of the driver's memory functions. Here come the callers without a runtime of
 * their own name: statically linked runtimes, JIT compilers, and libraries that use the driver
 * directly. What a runtime hook of the same thread records is not recorded again. */
#include "hook/hook.h"

/* Tells the record how an allocation ended. Page-locked and managed memory live with the host: a
 * refusal of those says nothing about the device. */
static void note(enum real_id id, enum record_class class, CUresult result, uint64_t address,
                 uint64_t bytes) {
    if (result == CUDA_SUCCESS)
        record_allocated(class, address, bytes, false);
    else if (result == CUDA_ERROR_OUT_OF_MEMORY && class != CLASS_PINNED && class != CLASS_MANAGED)
        record_refused(id, bytes);
    else
        record_call_failed(id);
}

/* Memory that is only kept for PyTorch goes to whoever needs device memory now. */
static bool rescue(enum record_class class, uint64_t bytes) {
    return (class == CLASS_DEVICE || class == CLASS_POOL) && record_rescue(bytes);
}

/* asked: what the caller asked for; got: what it costs. What the caller points to is looked at only
 * on success: on an error it may be anything. */
#define ALLOCATE_AS(symbol, class, asked, got, ...)                                                \
    real_##symbol##_t real = REAL(symbol);                                                         \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    CUresult result = real ? real(__VA_ARGS__) : MISSING_CUDA;                                     \
    if (outermost && result == CUDA_ERROR_OUT_OF_MEMORY && rescue(class, asked))                   \
        result = real(__VA_ARGS__);                                                                \
    if (outermost)                                                                                 \
        note(ID_##symbol, class, result, result == CUDA_SUCCESS ? (uint64_t)*p : 0,                \
             result == CUDA_SUCCESS ? (got) : (asked));                                            \
    hook_leave();                                                                                  \
    return result

#define ALLOCATE(symbol, class, bytes, ...) ALLOCATE_AS(symbol, class, bytes, bytes, __VA_ARGS__)

#define RELEASE(symbol, ...)                                                                       \
    real_##symbol##_t real = REAL(symbol);                                                         \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    struct record_taken taken = {0};                                                               \
    if (outermost)                                                                                 \
        record_take((uint64_t)p, &taken);                                                          \
    CUresult result = real ? real(__VA_ARGS__) : MISSING_CUDA;                                     \
    if (outermost && result == CUDA_SUCCESS)                                                       \
        record_gone(&taken);                                                                       \
    else if (outermost)                                                                            \
        record_put_back(&taken);                                                                   \
    hook_leave();                                                                                  \
    return result

#define STREAM_ORDERED(stream) (record_captured(stream) ? CLASS_GRAPH : CLASS_POOL)

CUresult cuInit(unsigned f) {
    real_cuInit_t real = REAL(cuInit);
    hook_enter(ID_cuInit);
    CUresult result = real ? real(f) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        record_cuda_begins();
    hook_leave();
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    ALLOCATE(cuMemAlloc_v2, CLASS_DEVICE, n, p, n);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t w, size_t h, unsigned e) {
    ALLOCATE_AS(cuMemAllocPitch_v2, CLASS_DEVICE, w * h, *pitch * h, p, pitch, w, h, e);
}

CUresult cuMemFree_v2(CUdeviceptr p) {
    RELEASE(cuMemFree_v2, p);
}

CUresult cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned f) {
    ALLOCATE(cuMemAllocManaged, CLASS_MANAGED, n, p, n, f);
}

CUresult cuMemHostAlloc(void **p, size_t n, unsigned f) {
    ALLOCATE(cuMemHostAlloc, CLASS_PINNED, n, p, n, f);
}

CUresult cuMemAllocHost_v2(void **p, size_t n) {
    ALLOCATE(cuMemAllocHost_v2, CLASS_PINNED, n, p, n);
}

CUresult cuMemFreeHost(void *p) {
    RELEASE(cuMemFreeHost, p);
}

CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned f) {
    real_cuMemHostRegister_v2_t real = REAL(cuMemHostRegister_v2);
    bool outermost = hook_enter(ID_cuMemHostRegister_v2);
    CUresult result = real ? real(p, n, f) : MISSING_CUDA;
    if (outermost && result == CUDA_SUCCESS)
        record_allocated(CLASS_REGISTERED, (uint64_t)(uintptr_t)p, n, false);
    hook_leave();
    return result;
}

CUresult cuMemHostUnregister(void *p) {
    RELEASE(cuMemHostUnregister, p);
}

CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s) {
    ALLOCATE(cuMemAllocAsync, STREAM_ORDERED(STREAM(s)), n, p, n, s);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *p, size_t n, CUstream s) {
    ALLOCATE(cuMemAllocAsync_ptsz, STREAM_ORDERED(STREAM_PTSZ(s)), n, p, n, s);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t n, CUmemoryPool q, CUstream s) {
    ALLOCATE(cuMemAllocFromPoolAsync, STREAM_ORDERED(STREAM(s)), n, p, n, q, s);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *p, size_t n, CUmemoryPool q, CUstream s) {
    ALLOCATE(cuMemAllocFromPoolAsync_ptsz, STREAM_ORDERED(STREAM_PTSZ(s)), n, p, n, q, s);
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) {
    RELEASE(cuMemFreeAsync, p, s);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream s) {
    RELEASE(cuMemFreeAsync_ptsz, p, s);
}

CUresult cuMemPoolDestroy(CUmemoryPool q) {
    real_cuMemPoolDestroy_t real = REAL(cuMemPoolDestroy);
    hook_enter(ID_cuMemPoolDestroy);
    CUresult result = real ? real(q) : MISSING_CUDA; /* what was allocated stays until freed */
    hook_leave();
    return result;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    real_cuMemGetInfo_v2_t real = REAL(cuMemGetInfo_v2);
    bool outermost = hook_enter(ID_cuMemGetInfo_v2);
    CUresult result = real ? real(free, total) : MISSING_CUDA;
    if (outermost && result == CUDA_SUCCESS && free && total) {
        record_memory_info(*free, *total);
        *free = record_free_as_seen(*free);
    }
    hook_leave();
    return result;
}

static uint64_t size_of(CUdeviceptr p) {
    real_cuMemGetAddressRange_v2_t get_range = REAL(cuMemGetAddressRange_v2);
    CUdeviceptr base;
    size_t bytes;
    return get_range && get_range(&base, &bytes, p) == CUDA_SUCCESS ? bytes : 0;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *p, CUipcMemHandle h, unsigned f) {
    ALLOCATE_AS(cuIpcOpenMemHandle_v2, CLASS_IMPORTED, 0, size_of(*p), p, h, f);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
    RELEASE(cuIpcCloseMemHandle, p);
}
