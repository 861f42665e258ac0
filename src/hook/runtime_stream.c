/* runtime_stream.c: wrappers of the few stream and event functions by which PyTorch's allocator
 * gives away what its block events do not say: the stream of a segment, and when a block that
 * another stream used is really free. They are on nobody's launch path. */
#include "hook/calls.h"
#include "track/block.h"
#include "track/call.h"
#include "track/recording.h"

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *c) {
    real_cudaStreamIsCapturing_t real = RUNTIME(cudaStreamIsCapturing);
    call_made(ID_cudaStreamIsCapturing);
    cudaError_t result = real ? real(s, c) : MISSING_CUDART;
    if (result == cudaSuccess && FROM_ALLOCATOR())
        block_stream_asked((uint64_t)(uintptr_t)s, *c != cudaStreamCaptureStatusNone);
    return result;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode m) {
    BEGIN_CAPTURE(CUDART, cudaStreamBeginCapture, STREAM(s), s, m);
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t *d,
                                          const cudaGraphEdgeData *e, size_t n,
                                          enum cudaStreamCaptureMode m) {
    BEGIN_CAPTURE(CUDART, cudaStreamBeginCaptureToGraph, STREAM(s), s, g, d, e, n, m);
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
    END_CAPTURE(CUDART, cudaStreamEndCapture, STREAM(s), s, g);
}

/* Every stream is known from the start: blocks of expandable segments do not name theirs. */
cudaError_t cudaStreamCreate(cudaStream_t *s) {
    MAKE_STREAM(CUDART, cudaStreamCreate, s);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f) {
    MAKE_STREAM(CUDART, cudaStreamCreateWithFlags, s, f);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f, int priority) {
    MAKE_STREAM(CUDART, cudaStreamCreateWithPriority, s, f, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
    real_cudaStreamDestroy_t real = RUNTIME(cudaStreamDestroy);
    bool outermost = hook_enter(ID_cudaStreamDestroy);
    hook_stream_gone(STREAM(s)); /* before: it must not be asked afterwards */
    cudaError_t result = real ? real(s) : MISSING_CUDART;
    if (outermost && result == cudaSuccess)
        capture_end(STREAM(s));
    hook_leave();
    return result;
}

/* What is noted of an event where the call succeeded, if it is to be. */
#define EVENT(symbol, noted, note, ...)                                                            \
    real_##symbol##_t real = RUNTIME(symbol);                                                      \
    call_made(ID_##symbol);                                                                        \
    cudaError_t result = real ? real(__VA_ARGS__) : MISSING_CUDART;                                \
    if (result == cudaSuccess && (noted))                                                          \
        note((uint64_t)(uintptr_t)e);                                                              \
    return result

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    EVENT(cudaEventRecord, recording_is_on() && FROM_ALLOCATOR(), block_event_recorded, e, s);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f) {
    EVENT(cudaEventRecordWithFlags, recording_is_on() && FROM_ALLOCATOR(), block_event_recorded, e,
          s, f);
}

cudaError_t cudaEventQuery(cudaEvent_t e) {
    EVENT(cudaEventQuery, true, block_event_ended, e);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    EVENT(cudaEventSynchronize, true, block_event_ended, e);
}

/* PyTorch's allocator keeps the events that it waits for: this one was another library's. */
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    real_cudaEventDestroy_t real = RUNTIME(cudaEventDestroy);
    call_made(ID_cudaEventDestroy);
    block_event_destroyed((uint64_t)(uintptr_t)e); /* before: it may be made anew at once */
    block_event_ended((uint64_t)(uintptr_t)e);
    return real ? real(e) : MISSING_CUDART;
}
