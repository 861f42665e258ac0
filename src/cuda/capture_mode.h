/* capture_mode.h: while a stream is captured, calls that may make the driver wait break that
 * capture unless their thread has said that it knows better. PyTorch says so around its cudaMalloc;
 * we say so around ours. It must be taken back at once: the thread is the program's. */
#pragma once

#include "cuda/real.h"

/* Cheap: the driver only notes it with the thread. Not only where something is known to be
 * captured: a capture may begin meanwhile. The mode before; nests. */
static inline CUstreamCaptureMode capture_mode_set(CUstreamCaptureMode mode) {
    real_cuThreadExchangeStreamCaptureMode_t exchange = REAL(cuThreadExchangeStreamCaptureMode);
    if (exchange)
        exchange(&mode); /* driver 10.1 */
    return mode;
}

static inline CUstreamCaptureMode capture_mode_relax(void) {
    return capture_mode_set(CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* RELAXED_CAPTURES; is that up to the end of the block. */
static inline void capture_mode_restore(CUstreamCaptureMode *before) {
    capture_mode_set(*before);
}
#define RELAXED_CAPTURES                                                                           \
    CUstreamCaptureMode captures_before AT_END(capture_mode_restore) = capture_mode_relax()
