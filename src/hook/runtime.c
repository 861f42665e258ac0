/* runtime.c: wrappers of the CUDA runtime's memory functions. They pass every argument and every
 * result through untouched; the one exception is a cudaMalloc of PyTorch's allocator that is
 * answered with out of memory on purpose (see record/segment.c). */
#include "hook/hook.h"

/* Tells the record how an allocation ended. Page-locked and managed memory live with the host: a
 * refusal of those says nothing about the device. */
static void note(enum real_id id, enum record_class class, cudaError_t result, const void *pointer,
                 uint64_t bytes, bool allocator) {
    if (result == cudaSuccess)
        record_allocated(class, (uint64_t)(uintptr_t)pointer, bytes, allocator);
    else if (result == cudaErrorMemoryAllocation && class != CLASS_PINNED && class != CLASS_MANAGED)
        record_refused(id, bytes);
    else
        record_call_failed(id);
}

/* Memory that is only kept for PyTorch goes to whoever needs device memory now. The runtime
 * remembers the refusal for whoever asks for its latest error: nobody shall hear of it. */
static bool rescue(enum record_class class, uint64_t bytes, const void *caller) {
    real_cudaGetLastError_t forget = RUNTIME_OF(caller, cudaGetLastError);
    bool rescued = (class == CLASS_DEVICE || class == CLASS_POOL) && forget && record_rescue(bytes);
    if (rescued)
        forget();
    return rescued;
}

cudaError_t cudaMalloc(void **p, size_t n) {
    real_cudaMalloc_t real = RUNTIME(cudaMalloc);
    bool outermost = hook_enter(ID_cudaMalloc);
    bool allocator = outermost && FROM_ALLOCATOR();
    /* Without its cache PyTorch does not ask first, and makes no blocks. */
    bool segment = allocator && record_thread.stream_asked;
    cudaError_t result = MISSING_CUDART;
    enum record_paged paged = segment && p ? record_paged_segment(n, p) : RECORD_NOT_PAGED;
    if (paged != RECORD_NOT_PAGED) {
        result = paged == RECORD_PAGED ? cudaSuccess : cudaErrorMemoryAllocation;
    } else if (outermost && record_refuse_segment(allocator, n)) {
        result = cudaErrorMemoryAllocation;
    } else if (real) {
        result = real(p, n);
        if (outermost && result == cudaErrorMemoryAllocation &&
            rescue(CLASS_DEVICE, n, __builtin_return_address(0)))
            result = real(p, n);
        if (outermost)
            note(ID_cudaMalloc, CLASS_DEVICE, result, result == cudaSuccess ? *p : NULL, n,
                 segment);
    }
    if (allocator)
        record_thread.stream_asked = false;
    hook_leave();
    return result;
}

/* The record is taken out before the call: the driver may give the address out again at once. */
cudaError_t cudaFree(void *p) {
    real_cudaFree_t real = RUNTIME(cudaFree);
    bool outermost = hook_enter(ID_cudaFree);
    struct record_taken taken = {0};
    if (outermost)
        record_take((uint64_t)(uintptr_t)p, &taken);
    cudaError_t result = MISSING_CUDART;
    if (record_paged_end(&taken))
        result = cudaSuccess;
    else if (real)
        result = real(p);
    if (outermost && result == cudaSuccess)
        record_gone(&taken);
    else if (outermost)
        record_put_back(&taken);
    hook_leave();
    return result;
}

/* asked: what the caller asked for; got: what it costs. What the caller points to is looked at only
 * on success: on an error it may be anything. */
#define ALLOCATE_AS(symbol, class, asked, got, ...)                                                \
    real_##symbol##_t real = RUNTIME(symbol);                                                      \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    cudaError_t result = real ? real(__VA_ARGS__) : MISSING_CUDART;                                \
    if (outermost && result == cudaErrorMemoryAllocation &&                                        \
        rescue(class, asked, __builtin_return_address(0)))                                         \
        result = real(__VA_ARGS__);                                                                \
    if (outermost)                                                                                 \
        note(ID_##symbol, class, result, result == cudaSuccess ? *p : NULL,                        \
             result == cudaSuccess ? (got) : (asked), FROM_ALLOCATOR());                           \
    hook_leave();                                                                                  \
    return result

#define ALLOCATE(symbol, class, bytes, ...) ALLOCATE_AS(symbol, class, bytes, bytes, __VA_ARGS__)

#define RELEASE(symbol, ...)                                                                       \
    real_##symbol##_t real = RUNTIME(symbol);                                                      \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    struct record_taken taken = {0};                                                               \
    if (outermost)                                                                                 \
        record_take((uint64_t)(uintptr_t)p, &taken);                                               \
    cudaError_t result = real ? real(__VA_ARGS__) : MISSING_CUDART;                                \
    if (outermost && result == cudaSuccess)                                                        \
        record_gone(&taken);                                                                       \
    else if (outermost)                                                                            \
        record_put_back(&taken);                                                                   \
    hook_leave();                                                                                  \
    return result

/* During a capture a stream-ordered allocation becomes a node of the graph. */
#define STREAM_ORDERED(stream) (record_captured(stream) ? CLASS_GRAPH : CLASS_POOL)

cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t w, size_t h) {
    ALLOCATE_AS(cudaMallocPitch, CLASS_DEVICE, w * h, *pitch * h, p, pitch, w, h);
}

/* The pointer is the first thing in what `volume` points to. */
cudaError_t cudaMalloc3D(struct cudaPitchedPtr *volume, struct cudaExtent e) {
    void **p = (void **)volume;
    ALLOCATE_AS(cudaMalloc3D, CLASS_DEVICE, e.width * e.height * e.depth,
                volume->pitch * e.height * e.depth, volume, e);
}

cudaError_t cudaMallocManaged(void **p, size_t n, unsigned f) {
    ALLOCATE(cudaMallocManaged, CLASS_MANAGED, n, p, n, f);
}

cudaError_t cudaMallocHost(void **p, size_t n) {
    ALLOCATE(cudaMallocHost, CLASS_PINNED, n, p, n);
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned f) {
    ALLOCATE(cudaHostAlloc, CLASS_PINNED, n, p, n, f);
}

cudaError_t cudaFreeHost(void *p) {
    RELEASE(cudaFreeHost, p);
}

cudaError_t cudaHostRegister(void *p, size_t n, unsigned f) {
    real_cudaHostRegister_t real = RUNTIME(cudaHostRegister);
    bool outermost = hook_enter(ID_cudaHostRegister);
    cudaError_t result = real ? real(p, n, f) : MISSING_CUDART;
    if (outermost && result == cudaSuccess)
        record_allocated(CLASS_REGISTERED, (uint64_t)(uintptr_t)p, n, false);
    hook_leave();
    return result;
}

cudaError_t cudaHostUnregister(void *p) {
    RELEASE(cudaHostUnregister, p);
}

cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
    ALLOCATE(cudaMallocAsync, STREAM_ORDERED(STREAM(s)), n, p, n, s);
}

cudaError_t cudaMallocAsync_ptsz(void **p, size_t n, cudaStream_t s) {
    ALLOCATE(cudaMallocAsync_ptsz, STREAM_ORDERED(STREAM_PTSZ(s)), n, p, n, s);
}

cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t q, cudaStream_t s) {
    ALLOCATE(cudaMallocFromPoolAsync, STREAM_ORDERED(STREAM(s)), n, p, n, q, s);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **p, size_t n, cudaMemPool_t q, cudaStream_t s) {
    ALLOCATE(cudaMallocFromPoolAsync_ptsz, STREAM_ORDERED(STREAM_PTSZ(s)), n, p, n, q, s);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
    RELEASE(cudaFreeAsync, p, s);
}

cudaError_t cudaFreeAsync_ptsz(void *p, cudaStream_t s) {
    RELEASE(cudaFreeAsync_ptsz, p, s);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    real_cudaMemGetInfo_t real = RUNTIME(cudaMemGetInfo);
    bool outermost = hook_enter(ID_cudaMemGetInfo);
    cudaError_t result = real ? real(free, total) : MISSING_CUDART;
    if (outermost && result == cudaSuccess && free && total) {
        record_memory_info(*free, *total);
        *free = record_free_as_seen(*free);
    }
    hook_leave();
    return result;
}

cudaError_t cudaDeviceReset(void) {
    real_cudaDeviceReset_t real = RUNTIME(cudaDeviceReset);
    hook_enter(ID_cudaDeviceReset);
    cudaError_t result = real ? real() : MISSING_CUDART; /* the driver hook sees which device */
    hook_leave();
    return result;
}
