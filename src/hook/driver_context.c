/* driver_context.c: wrappers of context and capture functions: where recording begins, where
 * everything is dropped at once, and when the driver must not be disturbed. */
#include "hook/calls.h"

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
    real_cuDevicePrimaryCtxRetain_t real = REAL(cuDevicePrimaryCtxRetain);
    hook_enter(ID_cuDevicePrimaryCtxRetain);
    CUresult result = real ? real(c, d) : MISSING_CUDA;
    if (result == CUDA_SUCCESS) {
        record_thread.context_seen = true;
        record_primary_context((unsigned)d, *c);
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
    bool used = record_primary_leave((unsigned)d);
    CUresult result = real ? real(d) : MISSING_CUDA;
    if (result == CUDA_SUCCESS && !is_active(d))
        record_primary_gone((unsigned)d);
    else if (used)
        record_primary_stays((unsigned)d);
    hook_leave();
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) {
    real_cuDevicePrimaryCtxReset_v2_t real = REAL(cuDevicePrimaryCtxReset_v2);
    hook_enter(ID_cuDevicePrimaryCtxReset_v2);
    bool used = record_primary_leave((unsigned)d);
    CUresult result = real ? real(d) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        record_reset((unsigned)d);
    else if (used)
        record_primary_stays((unsigned)d);
    hook_leave();
    return result;
}

#define MAKE_CONTEXT(symbol, ...)                                                                  \
    real_##symbol##_t real = REAL(symbol);                                                         \
    hook_enter(ID_##symbol);                                                                       \
    CUresult result = real ? real(__VA_ARGS__) : MISSING_CUDA;                                     \
    if (result == CUDA_SUCCESS)                                                                    \
        record_thread.context_seen = true;                                                         \
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
        record_context_gone(c);
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
        record_green_stream_made();
    hook_leave();
    return result;
}

CUresult cuStreamDestroy_v2(CUstream s) {
    real_cuStreamDestroy_v2_t real = REAL(cuStreamDestroy_v2);
    bool outermost = hook_enter(ID_cuStreamDestroy_v2);
    if (outermost)
        record_stream_gone(STREAM(s));
    CUresult result = real ? real(s) : MISSING_CUDA;
    if (outermost && result == CUDA_SUCCESS)
        record_capture_end(STREAM(s));
    hook_leave();
    return result;
}

static CUresult begin(enum real_id id, real_cuStreamBeginCapture_v2_t real, CUstream s,
                      CUstreamCaptureMode m, uint64_t stream) {
    bool outermost = hook_enter(id);
    bool added = outermost && record_capture_begin(stream);
    CUresult result = real ? real(s, m) : MISSING_CUDA;
    if (added && result != CUDA_SUCCESS)
        record_capture_end(stream);
    hook_leave();
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode m) {
    return begin(ID_cuStreamBeginCapture_v2, REAL(cuStreamBeginCapture_v2), s, m, STREAM(s));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream s, CUstreamCaptureMode m) {
    return begin(ID_cuStreamBeginCapture_v2_ptsz, REAL(cuStreamBeginCapture_v2_ptsz), s, m,
                 STREAM_PTSZ(s));
}

static CUresult end(enum real_id id, real_cuStreamEndCapture_t real, CUstream s, CUgraph *g,
                    uint64_t stream) {
    bool outermost = hook_enter(id);
    CUresult result = real ? real(s, g) : MISSING_CUDA;
    if (outermost && result == CUDA_SUCCESS)
        record_capture_end(stream);
    else if (outermost)
        record_capture_end_failed(stream);
    hook_leave();
    return result;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
    return end(ID_cuStreamEndCapture, REAL(cuStreamEndCapture), s, g, STREAM(s));
}

CUresult cuStreamEndCapture_ptsz(CUstream s, CUgraph *g) {
    return end(ID_cuStreamEndCapture_ptsz, REAL(cuStreamEndCapture_ptsz), s, g, STREAM_PTSZ(s));
}
