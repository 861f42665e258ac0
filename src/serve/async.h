/* async.h: mode compact with VRAMGC_ASYNC=pages: cudaMallocAsync and cudaFreeAsync are served
 * by a stream-ordered pool of our own on the page engine (src/vm/pool.h), in place of the
 * device's default pool. Without that setting all of these do nothing. */
#ifndef ASYNC_H
#define ASYNC_H

#include "track/device.h"
#include "track/record.h"

/* 2 MiB pages of the device's pool that a block reaches into: what it really holds. */
uint64_t paged_async_bytes(struct device *device);

void paged_async_stream_gone(uint64_t stream);

/* For a forked child. */
void paged_async_forget(void);

/* The device was reset: its memory does not exist any more. */
void paged_async_reset(struct device *device);

#endif
