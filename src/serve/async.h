/* async.h: mode compact with VRAMGC_ASYNC=pages: cudaMallocAsync and cudaFreeAsync are served by a
 * stream-ordered pool of our own on the page engine (src/vm/pool.h), in place of the device's
 * default pool. Without that setting only the books are kept. */
#pragma once

#include "track/alloc.h"
#include "track/device.h"

/* How a call for memory is answered. PASS: the driver is to be asked. OOM: with out of memory. */
enum serve_answer { SERVE_PASS, SERVE_DONE, SERVE_OOM };

/* A stream-ordered allocation from the device's default pool out of a pool of our own, and its
 * release on a stream, or (STREAM_NONE) by cudaFree. False: the driver is to be asked. */
struct async_request {
    enum real_id id;
    uint64_t bytes, stream;
    CUmemoryPool pool; /* NULL: the current one of the device */
    bool allocator;
};
enum serve_answer async_alloc(const struct async_request *call, void **out);
bool async_free(enum real_id id, const struct alloc_freed *taken, uint64_t stream);

/* After the driver has answered for a pool: our part of the figure; a high mark was reset; it was
 * trimmed; other devices got access, which is false if ours could not be opened to them. */
void async_pool_get_attribute(CUmemoryPool asked, CUmemPool_attribute attribute, void *value);
void async_pool_set_attribute(CUmemoryPool asked, CUmemPool_attribute attribute);
void async_pool_trim(CUmemoryPool asked);
bool async_pool_set_access(CUmemoryPool asked, const CUmemAccessDesc *access, size_t count);

/* A capture is about to begin in the device's context. What it allocates it has from the driver,
 * which takes it from its own idle pool where memory is short: ours goes back to it before. */
void async_capture_prepare(struct device *device);

void async_stream_gone(uint64_t stream);

/* For a forked child. */
void async_forget(void);

/* The device was reset: its memory does not exist any more. */
void async_reset(struct device *device);
