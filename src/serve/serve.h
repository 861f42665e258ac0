/* serve.h: what happens to the program and concerns every paged allocation at once. */
#pragma once

#include "track/device.h"

/* A stream is about to be destroyed. */
void serve_stream_gone(uint64_t stream);

/* A capture is about to begin in the current context, and does not count as begun yet; it counts as
 * begun: nothing is asked of the GPU any more. */
void serve_capture_prepare(void);
void serve_capture_begin(void);

/* The device was reset: its memory does not exist any more. */
void serve_reset(struct device *device);

/* For a forked child. */
void serve_forget(void);
