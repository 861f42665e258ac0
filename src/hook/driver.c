/* driver.c: wrappers of the driver's memory functions. Here come the callers without a runtime of
 * their own name: statically linked runtimes, JIT compilers, and libraries that use the driver
 * directly. What a runtime hook of the same thread records is not recorded again. Then those of
 * contexts and captures: where recording begins, where everything is dropped at once, and when the
 * driver must not be disturbed. */
#include "cuda/capture_mode.h"
#include "govern/trim.h"
#include "hook/calls.h"
#include "hook/hook.h"
#include "process/start.h"
#include "serve/async.h"
#include "track/alloc.h"
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
    RELAXED_CAPTURES;
    struct hook_state before = hook_state;
    hook_state = (struct hook_state){.depth = 1}; /* what the weights release counts, this not */
    bool made = cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS && cuMemFree_v2(p) == CUDA_SUCCESS;
    hook_state = before;
    return made;
}

__attribute__((constructor)) static void offer_weights(void) {
    last_resort_weights(give_weights);
}

/* --- contexts and captures --- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
    real_cuDevicePrimaryCtxRetain_t real = REAL(cuDevicePrimaryCtxRetain);
    hook_enter(ID_cuDevicePrimaryCtxRetain);
    CUresult result = real ? real(c, d) : MISSING_CUDA;
    if (result == CUDA_SUCCESS) {
        hook_state.context_seen = true;
        context_primary_made((unsigned)d, *c);
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY && start_recording()) {
        oom_at_context((unsigned)d);
    }
    hook_leave();
    return result;
}

static bool is_active(CUdevice d) {
    real_cuDevicePrimaryCtxGetState_t get_state = REAL(cuDevicePrimaryCtxGetState);
    unsigned flags;
    int active = 1;
    return !get_state || get_state(d, &flags, &active) != CUDA_SUCCESS || active;
}

/* The forms without a number are those of old programs. */
typedef CUresult of_device(CUdevice d);

/* Our own thread must not be in a context that is gone: it stops using it before the call. */
static CUresult end_primary(enum real_id id, CUdevice d, bool resets) {
    of_device *real = (of_device *)real_get(id);
    hook_enter(id);
    bool used = context_primary_leave((unsigned)d);
    CUresult result = real ? real(d) : MISSING_CUDA;
    if (result == CUDA_SUCCESS && resets)
        reset_device((unsigned)d);
    else if (result == CUDA_SUCCESS && !is_active(d))
        reset_primary_gone((unsigned)d);
    else if (used)
        context_primary_stays((unsigned)d);
    hook_leave();
    return result;
}

#define END_PRIMARY(api, symbol, resets) return end_primary(ID_##symbol, d, resets)
WRAP(END_PRIMARY, CUDA, cuDevicePrimaryCtxRelease_v2, (CUdevice d), false)
WRAP(END_PRIMARY, CUDA, cuDevicePrimaryCtxRelease, (CUdevice d), false)
WRAP(END_PRIMARY, CUDA, cuDevicePrimaryCtxReset_v2, (CUdevice d), true)
WRAP(END_PRIMARY, CUDA, cuDevicePrimaryCtxReset, (CUdevice d), true)

WRAP(CALL_THEN, CUDA, cuCtxCreate, (CUcontext * c, unsigned f, CUdevice d),
     hook_state.context_seen = true, c, f, d)
WRAP(CALL_THEN, CUDA, cuCtxCreate_v2, (CUcontext * c, unsigned f, CUdevice d),
     hook_state.context_seen = true, c, f, d)
WRAP(CALL_THEN, CUDA, cuCtxCreate_v3,
     (CUcontext * c, CUexecAffinityParam *a, int n, unsigned f, CUdevice d),
     hook_state.context_seen = true, c, a, n, f, d)
WRAP(CALL_THEN, CUDA, cuCtxCreate_v4, (CUcontext * c, CUctxCreateParams *a, unsigned f, CUdevice d),
     hook_state.context_seen = true, c, a, f, d)

WRAP(CALL_THEN, CUDA, cuCtxDestroy_v2, (CUcontext c), alloc_context_gone(c), c)
WRAP(CALL_THEN, CUDA, cuCtxDestroy, (CUcontext c), alloc_context_gone(c), c)
WRAP(MAKE_STREAM, CUDA, cuStreamCreate, (CUstream * s, unsigned f), s, f)
WRAP(MAKE_STREAM, CUDA, cuStreamCreateWithPriority, (CUstream * s, unsigned f, int priority), s, f,
     priority)
WRAP(CALL_THEN, CUDA, cuGreenCtxStreamCreate,
     (CUstream * s, CUgreenCtx g, unsigned f, int priority), stream_made_green(), s, g, f, priority)

WRAP(DESTROY_STREAM, CUDA, cuStreamDestroy_v2, (CUstream s))
WRAP(DESTROY_STREAM, CUDA, cuStreamDestroy, (CUstream s))
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCapture, (CUstream s), STREAM(s), s)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCapture_ptsz, (CUstream s), STREAM_PTSZ(s), s)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode m), STREAM(s),
     s, m)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCapture_v2_ptsz, (CUstream s, CUstreamCaptureMode m),
     STREAM_PTSZ(s), s, m)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCaptureToGraph,
     (CUstream s, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n,
      CUstreamCaptureMode m),
     STREAM(s), s, g, d, e, n, m)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCaptureToGraph_ptsz,
     (CUstream s, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n,
      CUstreamCaptureMode m),
     STREAM_PTSZ(s), s, g, d, e, n, m)
WRAP(END_CAPTURE, CUDA, cuStreamEndCapture, (CUstream s, CUgraph *g), STREAM(s), s, g)
WRAP(END_CAPTURE, CUDA, cuStreamEndCapture_ptsz, (CUstream s, CUgraph *g), STREAM_PTSZ(s), s, g)

/* CUDA 13.3; and 13.2, which captures into a command list of another API (CUDA in graphics). */
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginRecaptureToGraph,
     (CUstream s, CUstreamCaptureMode m, CUgraph g, CUgraphRecaptureCallback f, void *data),
     STREAM(s), s, m, g, f, data)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginRecaptureToGraph_ptsz,
     (CUstream s, CUstreamCaptureMode m, CUgraph g, CUgraphRecaptureCallback f, void *data),
     STREAM_PTSZ(s), s, m, g, f, data)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCaptureToCig, (CUstream s, CUstreamCigCaptureParams *d),
     STREAM(s), s, d)
WRAP(BEGIN_CAPTURE, CUDA, cuStreamBeginCaptureToCig_ptsz, (CUstream s, CUstreamCigCaptureParams *d),
     STREAM_PTSZ(s), s, d)
WRAP(END_CAPTURE, CUDA, cuStreamEndCaptureToCig, (CUstream s), STREAM(s), s)
WRAP(END_CAPTURE, CUDA, cuStreamEndCaptureToCig_ptsz, (CUstream s), STREAM_PTSZ(s), s)
