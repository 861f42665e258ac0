/* driver_context.c: wrappers of context and capture functions: where recording begins, where
 * everything is dropped at once, and when the driver must not be disturbed. */
#include "hook/calls.h"
#include "process/start.h"
#include "track/alloc.h"
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
