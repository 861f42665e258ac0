/* runtime.c: wrappers of the CUDA runtime's memory functions. They pass every argument and every
 * result through untouched; the one exception is a cudaMalloc of PyTorch's allocator that is
 * answered with out of memory on purpose (see govern/induce_oom.c). */
#include "govern/induce_oom.h"
#include "hook/calls.h"
#include "serve/answer.h"
#include "track/thread.h"

cudaError_t cudaMalloc(void **p, size_t n) {
    real_cudaMalloc_t real = RUNTIME(cudaMalloc);
    bool outermost = hook_enter_memory(ID_cudaMalloc);
    bool allocator = outermost && FROM_ALLOCATOR();
    bool ready = outermost && start_recording_in_context();
    /* Without its cache PyTorch does not ask first, and makes no blocks. */
    bool segment = allocator && thread_stream()->asked;
    cudaError_t result = MISSING_CUDART;
    enum serve_answer paged = ready && segment && p ? serve_malloc(n, p) : SERVE_PASS;
    if (UNLIKELY(paged == SERVE_OOM) && room_make(n))
        paged = serve_malloc(n, p);
    if (paged != SERVE_PASS) {
        result = paged == SERVE_DONE ? cudaSuccess : cudaErrorMemoryAllocation;
    } else if (ready && induce_oom_at_malloc(allocator, n)) {
        result = cudaErrorMemoryAllocation;
    } else if (real) {
        result = real(p, n);
        if (outermost && result == cudaErrorMemoryAllocation &&
            HOOK_RETRY(CLASS_DEVICE, n, segment, FORGET_CUDART))
            result = real(p, n);
        if (outermost)
            HOOK_NOTE(ID_cudaMalloc, CLASS_DEVICE, (int)result,
                      result == cudaSuccess ? (uint64_t)*p : 0, n, segment);
    }
    if (allocator)
        thread_stream_is_used();
    hook_leave();
    return result;
}

cudaError_t cudaFree(void *p) {
    RELEASE_UNLESS(serve_free(&taken), CUDART, cudaFree, p);
}

cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t w, size_t h) {
    ALLOCATE_AS(CUDART, cudaMallocPitch, CLASS_DEVICE, w * h, *pitch * h, p, pitch, w, h);
}

/* The pointer is the first thing in what `volume` points to. */
cudaError_t cudaMalloc3D(struct cudaPitchedPtr *volume, struct cudaExtent e) {
    void **p = (void **)volume;
    ALLOCATE_AS(CUDART, cudaMalloc3D, CLASS_DEVICE, e.width * e.height * e.depth,
                volume->pitch * e.height * e.depth, volume, e);
}

cudaError_t cudaMallocManaged(void **p, size_t n, unsigned f) {
    ALLOCATE(CUDART, cudaMallocManaged, CLASS_MANAGED, n, p, n, f);
}

cudaError_t cudaMallocHost(void **p, size_t n) {
    ALLOCATE(CUDART, cudaMallocHost, CLASS_PINNED, n, p, n);
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned f) {
    ALLOCATE(CUDART, cudaHostAlloc, CLASS_PINNED, n, p, n, f);
}

cudaError_t cudaFreeHost(void *p) {
    RELEASE(CUDART, cudaFreeHost, p);
}

cudaError_t cudaHostRegister(void *p, size_t n, unsigned f) {
    REGISTER(CUDART, cudaHostRegister);
}

cudaError_t cudaHostUnregister(void *p) {
    RELEASE(CUDART, cudaHostUnregister, p);
}

cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
    ALLOCATE_ORDERED(CUDART, cudaMallocAsync, STREAM(s), NULL, p, n, s);
}

cudaError_t cudaMallocAsync_ptsz(void **p, size_t n, cudaStream_t s) {
    ALLOCATE_ORDERED(CUDART, cudaMallocAsync_ptsz, STREAM_PTSZ(s), NULL, p, n, s);
}

cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t q, cudaStream_t s) {
    ALLOCATE_ORDERED(CUDART, cudaMallocFromPoolAsync, STREAM(s), q, p, n, q, s);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **p, size_t n, cudaMemPool_t q, cudaStream_t s) {
    ALLOCATE_ORDERED(CUDART, cudaMallocFromPoolAsync_ptsz, STREAM_PTSZ(s), q, p, n, q, s);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
    RELEASE_ORDERED(CUDART, cudaFreeAsync, STREAM(s), p, s);
}

cudaError_t cudaFreeAsync_ptsz(void *p, cudaStream_t s) {
    RELEASE_ORDERED(CUDART, cudaFreeAsync_ptsz, STREAM_PTSZ(s), p, s);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    MEMORY_INFO(CUDART, cudaMemGetInfo);
}

/* What comes before totalGlobalMem has been the same since CUDA 10. */
#define PROPERTIES(symbol)                                                                         \
    real_##symbol##_t real = RUNTIME(symbol);                                                      \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    cudaError_t result = real ? real(out, d) : MISSING_CUDART;                                     \
    if (outermost && result == cudaSuccess && limit_is_on())                                       \
        out->totalGlobalMem = limit_total(out->totalGlobalMem);                                    \
    hook_leave();                                                                                  \
    return result

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int d) {
    PROPERTIES(cudaGetDeviceProperties);
}

cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *out, int d) {
    PROPERTIES(cudaGetDeviceProperties_v2);
}

cudaError_t cudaDeviceReset(void) {
    real_cudaDeviceReset_t real = RUNTIME(cudaDeviceReset);
    hook_enter(ID_cudaDeviceReset);
    cudaError_t result = real ? real() : MISSING_CUDART; /* the driver hook sees which device */
    hook_leave();
    return result;
}
