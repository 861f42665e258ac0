/* runtime.c: wrappers of the CUDA runtime's memory functions. They pass every argument and every
 * result through untouched; the one exception is a cudaMalloc of PyTorch's allocator that is
 * answered with out of memory on purpose (see govern/soft_oom.c). Then those of the few stream
 * and event functions by which that allocator gives away what its block events do not say: the
 * stream of a segment, and when a block that another stream used is really free. They are on
 * nobody's launch path. */
#include "govern/soft_oom.h"
#include "hook/calls.h"
#include "serve/async.h"
#include "track/block.h"
#include "track/device.h"
#include "track/oom.h"
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
    if (paged != SERVE_PASS) {
        result = paged == SERVE_DONE ? cudaSuccess : cudaErrorMemoryAllocation;
    } else if (ready && soft_oom_at_malloc(allocator, n)) {
        result = cudaErrorMemoryAllocation;
    } else if (real) {
        struct request request = {0};
        do
            result = real(p, n);
        while (outermost && result == cudaErrorMemoryAllocation &&
               HOOK_LAST_RESORT(&request, CLASS_DEVICE, n, segment, FORGET_CUDART));
        if (outermost)
            HOOK_NOTE(ID_cudaMalloc, CLASS_DEVICE, (int)result,
                      result == cudaSuccess ? (uint64_t)*p : 0, n, segment);
    }
    if (allocator)
        thread_stream_is_used();
    hook_leave();
    return result;
}

WRAP(RELEASE_UNLESS, CUDART, cudaFree, (void *p), serve_free(&taken), p)
WRAP(ALLOCATE_AS, CUDART, cudaMallocPitch, (void **p, size_t *pitch, size_t w, size_t h),
     CLASS_DEVICE, w *h, *pitch *h, p, pitch, w, h)

/* The pointer is the first thing in what `volume` points to. */
cudaError_t cudaMalloc3D(struct cudaPitchedPtr *volume, struct cudaExtent e) {
    void **p = (void **)volume;
    ALLOCATE_AS(CUDART, cudaMalloc3D, CLASS_DEVICE, e.width * e.height * e.depth,
                volume->pitch * e.height * e.depth, volume, e);
}

WRAP(ALLOCATE, CUDART, cudaMallocManaged, (void **p, size_t n, unsigned f), CLASS_MANAGED, n, p, n,
     f)
WRAP(ALLOCATE, CUDART, cudaMallocHost, (void **p, size_t n), CLASS_PINNED, n, p, n)
WRAP(ALLOCATE, CUDART, cudaHostAlloc, (void **p, size_t n, unsigned f), CLASS_PINNED, n, p, n, f)
WRAP(RELEASE, CUDART, cudaFreeHost, (void *p), p)
WRAP(REGISTER, CUDART, cudaHostRegister, (void *p, size_t n, unsigned f))
WRAP(RELEASE, CUDART, cudaHostUnregister, (void *p), p)
WRAP(ALLOCATE_ORDERED, CUDART, cudaMallocAsync, (void **p, size_t n, cudaStream_t s), STREAM(s),
     NULL, p, n, s)
WRAP(ALLOCATE_ORDERED, CUDART, cudaMallocAsync_ptsz, (void **p, size_t n, cudaStream_t s),
     STREAM_PTSZ(s), NULL, p, n, s)
WRAP(ALLOCATE_ORDERED, CUDART, cudaMallocFromPoolAsync,
     (void **p, size_t n, cudaMemPool_t q, cudaStream_t s), STREAM(s), q, p, n, q, s)
WRAP(ALLOCATE_ORDERED, CUDART, cudaMallocFromPoolAsync_ptsz,
     (void **p, size_t n, cudaMemPool_t q, cudaStream_t s), STREAM_PTSZ(s), q, p, n, q, s)
WRAP(RELEASE_ORDERED, CUDART, cudaFreeAsync, (void *p, cudaStream_t s), STREAM(s), p, s)
WRAP(RELEASE_ORDERED, CUDART, cudaFreeAsync_ptsz, (void *p, cudaStream_t s), STREAM_PTSZ(s), p, s)

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    MEMORY_INFO(CUDART, cudaMemGetInfo);
}

/* PyTorch asks for it in order to raise the error of a call that is no allocation. */
const char *cudaGetErrorString(cudaError_t error) {
    real_cudaGetErrorString_t real = RUNTIME(cudaGetErrorString);
    call_made(ID_cudaGetErrorString);
    if (error == cudaErrorMemoryAllocation && FROM_ALLOCATOR())
        oom_at_error(ID_cudaGetErrorString);
    return real ? real(error) : "unknown error";
}

/* PyTorch calls it behind each kernel, and where it has caught a convolution's out-of-memory: it is
 * not counted. Its allocator does so before it raises that. */
cudaError_t cudaGetLastError(void) {
    real_cudaGetLastError_t real = RUNTIME(cudaGetLastError);
    if (UNLIKELY(oom_looks_for_work()) && !FROM_ALLOCATOR())
        oom_worked_on();
    return real ? real() : MISSING_CUDART;
}

/* All that comes before totalGlobalMem has been the same since CUDA 10. */
WRAP(TELL_SIZE, CUDART, cudaGetDeviceProperties, (struct cudaDeviceProp * out, int d),
     out->totalGlobalMem, out, d)
WRAP(TELL_SIZE, CUDART, cudaGetDeviceProperties_v2, (struct cudaDeviceProp * out, int d),
     out->totalGlobalMem, out, d)

/* The driver's hook sees which device. */
WRAP(CALL_THEN, CUDART, cudaDeviceReset, (void), (void)0)

/* --- streams and events --- */

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *c) {
    real_cudaStreamIsCapturing_t real = RUNTIME(cudaStreamIsCapturing);
    call_made(ID_cudaStreamIsCapturing);
    cudaError_t result = real ? real(s, c) : MISSING_CUDART;
    if (result == cudaSuccess && FROM_ALLOCATOR())
        block_stream_asked((uint64_t)(uintptr_t)s, *c != cudaStreamCaptureStatusNone);
    return result;
}

WRAP(BEGIN_CAPTURE, CUDART, cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode m),
     STREAM(s), s, m)
WRAP(BEGIN_CAPTURE, CUDART, cudaStreamBeginCaptureToGraph,
     (cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t *d, const cudaGraphEdgeData *e, size_t n,
      enum cudaStreamCaptureMode m),
     STREAM(s), s, g, d, e, n, m)
WRAP(END_CAPTURE, CUDART, cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), STREAM(s), s, g)

/* Every stream is known from the start: blocks of expandable segments do not name theirs. */
WRAP(MAKE_STREAM, CUDART, cudaStreamCreate, (cudaStream_t * s), s)
WRAP(MAKE_STREAM, CUDART, cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned f), s, f)
WRAP(MAKE_STREAM, CUDART, cudaStreamCreateWithPriority,
     (cudaStream_t * s, unsigned f, int priority), s, f, priority)

WRAP(DESTROY_STREAM, CUDART, cudaStreamDestroy, (cudaStream_t s))

/* `note` is called for an event where the call succeeded, if it is to be. */
#define EVENT(api, symbol, noted, note, ...)                                                       \
    real_##symbol##_t real = RUNTIME(symbol);                                                      \
    call_made(ID_##symbol);                                                                        \
    cudaError_t result = real ? real(__VA_ARGS__) : MISSING_CUDART;                                \
    if (result == cudaSuccess && (noted))                                                          \
        note((uint64_t)(uintptr_t)e);                                                              \
    return result

WRAP(EVENT, CUDART, cudaEventRecord, (cudaEvent_t e, cudaStream_t s),
     recording_is_on() && FROM_ALLOCATOR(), block_event_recorded, e, s)
WRAP(EVENT, CUDART, cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned f),
     recording_is_on() && FROM_ALLOCATOR(), block_event_recorded, e, s, f)
WRAP(EVENT, CUDART, cudaEventQuery, (cudaEvent_t e), true, block_event_ended, e)
WRAP(EVENT, CUDART, cudaEventSynchronize, (cudaEvent_t e), true, block_event_ended, e)

/* PyTorch's allocator keeps the events that it waits for: this one was another library's. */
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    real_cudaEventDestroy_t real = RUNTIME(cudaEventDestroy);
    call_made(ID_cudaEventDestroy);
    block_event_destroyed((uint64_t)(uintptr_t)e); /* before: it may be made anew at once */
    block_event_ended((uint64_t)(uintptr_t)e);
    return real ? real(e) : MISSING_CUDART;
}
