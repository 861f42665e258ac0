/* driver.c: wrappers of the driver's memory functions. Here come the callers without a runtime of
 * their own name: statically linked runtimes, JIT compilers, and libraries that use the driver
 * directly. What a runtime hook of the same thread records is not recorded again. */
#include "cuda/capture_mode.h"
#include "govern/trim.h"
#include "hook/calls.h"
#include "hook/hook.h"
#include "process/start.h"
#include "serve/async.h"
#include "track/oom.h"

WRAP(CALL_THEN, CUDA, cuInit, (unsigned f), start_at_cuda_init(), f)
WRAP(ALLOCATE, CUDA, cuMemAlloc_v2, (CUdeviceptr * p, size_t n), CLASS_DEVICE, n, p, n)
WRAP(ALLOCATE_AS, CUDA, cuMemAllocPitch_v2,
     (CUdeviceptr * p, size_t *pitch, size_t w, size_t h, unsigned e), CLASS_DEVICE, w *h,
     *pitch *h, p, pitch, w, h, e)
WRAP(RELEASE_UNLESS, CUDA, cuMemFree_v2, (CUdeviceptr p), serve_free(&taken), p)
WRAP(ALLOCATE, CUDA, cuMemAllocManaged, (CUdeviceptr * p, size_t n, unsigned f), CLASS_MANAGED, n,
     p, n, f)
WRAP(ALLOCATE, CUDA, cuMemHostAlloc, (void **p, size_t n, unsigned f), CLASS_PINNED, n, p, n, f)
WRAP(ALLOCATE, CUDA, cuMemAllocHost_v2, (void **p, size_t n), CLASS_PINNED, n, p, n)
WRAP(RELEASE, CUDA, cuMemFreeHost, (void *p), p)
WRAP(REGISTER, CUDA, cuMemHostRegister_v2, (void *p, size_t n, unsigned f))
WRAP(REGISTER, CUDA, cuMemHostRegister, (void *p, size_t n, unsigned f))
WRAP(RELEASE, CUDA, cuMemHostUnregister, (void *p), p)
WRAP(ALLOCATE_ORDERED, CUDA, cuMemAllocAsync, (CUdeviceptr * p, size_t n, CUstream s), STREAM(s),
     NULL, p, n, s)
WRAP(ALLOCATE_ORDERED, CUDA, cuMemAllocAsync_ptsz, (CUdeviceptr * p, size_t n, CUstream s),
     STREAM_PTSZ(s), NULL, p, n, s)
WRAP(ALLOCATE_ORDERED, CUDA, cuMemAllocFromPoolAsync,
     (CUdeviceptr * p, size_t n, CUmemoryPool q, CUstream s), STREAM(s), q, p, n, q, s)
WRAP(ALLOCATE_ORDERED, CUDA, cuMemAllocFromPoolAsync_ptsz,
     (CUdeviceptr * p, size_t n, CUmemoryPool q, CUstream s), STREAM_PTSZ(s), q, p, n, q, s)
WRAP(RELEASE_ORDERED, CUDA, cuMemFreeAsync, (CUdeviceptr p, CUstream s), STREAM(s), p, s)
WRAP(RELEASE_ORDERED, CUDA, cuMemFreeAsync_ptsz, (CUdeviceptr p, CUstream s), STREAM_PTSZ(s), p, s)

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    trim_before_weights(__builtin_return_address(0));
    MEMORY_INFO(CUDA, cuMemGetInfo_v2);
}

WRAP(TELL_SIZE, CUDA, cuDeviceTotalMem_v2, (size_t * n, CUdevice d), *n, n, d)

static uint64_t size_of(CUdeviceptr p) {
    real_cuMemGetAddressRange_v2_t get_range = REAL(cuMemGetAddressRange_v2);
    CUdeviceptr base;
    size_t bytes;
    return get_range && get_range(&base, &bytes, p) == CUDA_SUCCESS ? bytes : 0;
}

WRAP(ALLOCATE_AS, CUDA, cuIpcOpenMemHandle_v2, (CUdeviceptr * p, CUipcMemHandle h, unsigned f),
     CLASS_IMPORTED, 0, size_of(*p), p, h, f)
WRAP(ALLOCATE_AS, CUDA, cuIpcOpenMemHandle, (CUdeviceptr * p, CUipcMemHandle h, unsigned f),
     CLASS_IMPORTED, 0, size_of(*p), p, h, f)
WRAP(RELEASE, CUDA, cuIpcCloseMemHandle, (CUdeviceptr p), p)

/* --- pools: the driver answers; where the default pool is served by ours (mode compact,
 * VRAMGC_ASYNC=pages), ours is added. The runtime's calls on pools come here too. --- */

/* Memory of a pool that is destroyed stays until it is freed. */
WRAP(CALL_THEN, CUDA, cuMemPoolDestroy, (CUmemoryPool q), (void)0, q)
WRAP(CALL_THEN, CUDA, cuMemPoolGetAttribute, (CUmemoryPool q, CUmemPool_attribute a, void *v),
     async_pool_get_attribute(q, a, v), q, a, v)
WRAP(CALL_THEN, CUDA, cuMemPoolSetAttribute, (CUmemoryPool q, CUmemPool_attribute a, void *v),
     async_pool_set_attribute(q, a), q, a, v)
WRAP(CALL_THEN, CUDA, cuMemPoolTrimTo, (CUmemoryPool q, size_t keep),
     (oom_pool_trimmed(), async_pool_trim(q)), q, keep)
WRAP(CALL_THEN, CUDA, cuMemPoolSetAccess, (CUmemoryPool q, const CUmemAccessDesc *d, size_t count),
     result = async_pool_set_access(q, d, count) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED, q, d,
     count)

/* --- comfy-aimdo --- */

/* By the wrapper, whose first bytes are what comfy-aimdo has rewritten. */
static bool give_weights(uint64_t bytes) {
    CUdeviceptr p = 0;
    CUstreamCaptureMode mode = capture_mode_relax();
    struct hook_state before = hook_state;
    hook_state = (struct hook_state){.depth = 1}; /* what the weights release counts, this not */
    bool made = cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS && cuMemFree_v2(p) == CUDA_SUCCESS;
    hook_state = before;
    capture_mode_set(mode);
    return made;
}

__attribute__((constructor)) static void offer_weights(void) {
    last_resort_weights(give_weights);
}
