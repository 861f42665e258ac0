/* driver_context.c: wrappers of context and capture functions: where recording begins, where
 * everything is dropped at once, and when the driver must not be disturbed. */
#include "hook/calls.h"
#include "process/reset.h"
#include "track/context.h"
#include "track/oom.h"

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

/* Our own thread must not be in a context that is gone: it stops using it before the call. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
    real_cuDevicePrimaryCtxRelease_v2_t real = REAL(cuDevicePrimaryCtxRelease_v2);
    hook_enter(ID_cuDevicePrimaryCtxRelease_v2);
    bool used = context_primary_leave((unsigned)d);
    CUresult result = real ? real(d) : MISSING_CUDA;
    if (result == CUDA_SUCCESS && !is_active(d))
        reset_primary_gone((unsigned)d);
    else if (used)
        context_primary_stays((unsigned)d);
    hook_leave();
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) {
    real_cuDevicePrimaryCtxReset_v2_t real = REAL(cuDevicePrimaryCtxReset_v2);
    hook_enter(ID_cuDevicePrimaryCtxReset_v2);
    bool used = context_primary_leave((unsigned)d);
    CUresult result = real ? real(d) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        reset_device((unsigned)d);
    else if (used)
        context_primary_stays((unsigned)d);
    hook_leave();
    return result;
}

#define MAKE_CONTEXT(symbol, ...)                                                                  \
    real_##symbol##_t real = REAL(symbol);                                                         \
    hook_enter(ID_##symbol);                                                                       \
    CUresult result = real ? real(__VA_ARGS__) : MISSING_CUDA;                                     \
    if (result == CUDA_SUCCESS)                                                                    \
        hook_state.context_seen = true;                                                            \
    hook_leave();                                                                                  \
    return result

CUresult cuCtxCreate_v2(CUcontext *c, unsigned f, CUdevice d) {
    MAKE_CONTEXT(cuCtxCreate_v2, c, f, d);
}

CUresult cuCtxCreate_v3(CUcontext *c, CUexecAffinityParam *a, int n, unsigned f, CUdevice d) {
    MAKE_CONTEXT(cuCtxCreate_v3, c, a, n, f, d);
}

CUresult cuCtxCreate_v4(CUcontext *c, CUctxCreateParams *a, unsigned f, CUdevice d) {
    MAKE_CONTEXT(cuCtxCreate_v4, c, a, f, d);
}

CUresult cuCtxDestroy_v2(CUcontext c) {
    real_cuCtxDestroy_v2_t real = REAL(cuCtxDestroy_v2);
    hook_enter(ID_cuCtxDestroy_v2);
    CUresult result = real ? real(c) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        context_gone(c);
    hook_leave();
    return result;
}

CUresult cuStreamCreate(CUstream *s, unsigned f) {
    MAKE_STREAM(CUDA, cuStreamCreate, s, f);
}

CUresult cuStreamCreateWithPriority(CUstream *s, unsigned f, int priority) {
    MAKE_STREAM(CUDA, cuStreamCreateWithPriority, s, f, priority);
}

CUresult cuGreenCtxStreamCreate(CUstream *s, CUgreenCtx g, unsigned f, int priority) {
    real_cuGreenCtxStreamCreate_t real = REAL(cuGreenCtxStreamCreate);
    hook_enter(ID_cuGreenCtxStreamCreate);
    CUresult result = real ? real(s, g, f, priority) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        stream_made_green();
    hook_leave();
    return result;
}

CUresult cuStreamDestroy_v2(CUstream s) {
    real_cuStreamDestroy_v2_t real = REAL(cuStreamDestroy_v2);
    bool outermost = hook_enter(ID_cuStreamDestroy_v2);
    if (outermost)
        hook_stream_gone(STREAM(s));
    CUresult result = real ? real(s) : MISSING_CUDA;
    if (outermost && result == CUDA_SUCCESS)
        capture_end(STREAM(s));
    hook_leave();
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode m) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginCapture_v2, STREAM(s), s, m);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream s, CUstreamCaptureMode m) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginCapture_v2_ptsz, STREAM_PTSZ(s), s, m);
}

CUresult cuStreamBeginCaptureToGraph(CUstream s, CUgraph g, const CUgraphNode *d,
                                     const CUgraphEdgeData *e, size_t n, CUstreamCaptureMode m) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginCaptureToGraph, STREAM(s), s, g, d, e, n, m);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream s, CUgraph g, const CUgraphNode *d,
                                          const CUgraphEdgeData *e, size_t n,
                                          CUstreamCaptureMode m) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginCaptureToGraph_ptsz, STREAM_PTSZ(s), s, g, d, e, n, m);
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
    END_CAPTURE(CUDA, cuStreamEndCapture, STREAM(s), s, g);
}

CUresult cuStreamEndCapture_ptsz(CUstream s, CUgraph *g) {
    END_CAPTURE(CUDA, cuStreamEndCapture_ptsz, STREAM_PTSZ(s), s, g);
}

/* CUDA 13.3; and 13.2, which captures into a command list of another API (CUDA in graphics). */
CUresult cuStreamBeginRecaptureToGraph(CUstream s, CUstreamCaptureMode m, CUgraph g,
                                       CUgraphRecaptureCallback f, void *data) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginRecaptureToGraph, STREAM(s), s, m, g, f, data);
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream s, CUstreamCaptureMode m, CUgraph g,
                                            CUgraphRecaptureCallback f, void *data) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginRecaptureToGraph_ptsz, STREAM_PTSZ(s), s, m, g, f, data);
}

CUresult cuStreamBeginCaptureToCig(CUstream s, CUstreamCigCaptureParams *d) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginCaptureToCig, STREAM(s), s, d);
}

CUresult cuStreamBeginCaptureToCig_ptsz(CUstream s, CUstreamCigCaptureParams *d) {
    BEGIN_CAPTURE(CUDA, cuStreamBeginCaptureToCig_ptsz, STREAM_PTSZ(s), s, d);
}

CUresult cuStreamEndCaptureToCig(CUstream s) {
    END_CAPTURE(CUDA, cuStreamEndCaptureToCig, STREAM(s), s);
}

CUresult cuStreamEndCaptureToCig_ptsz(CUstream s) {
    END_CAPTURE(CUDA, cuStreamEndCaptureToCig_ptsz, STREAM_PTSZ(s), s);
}
