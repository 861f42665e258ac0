/* serve.h: mode compact for the segments of PyTorch's native allocator: addresses alone, whose
 * pages come with its blocks; and what happens to the program and concerns every paged allocation
 * at once. */
#pragma once

#include "serve/async.h"
#include "track/device.h"

/* A segment of PyTorch's allocator out of address space, whose pages come with its blocks. */
enum serve_answer serve_malloc(uint64_t bytes, void **out);

/* Frees it, or a block of our own pool. False: the driver is to be asked. */
bool serve_free(const struct alloc_freed *taken);

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
