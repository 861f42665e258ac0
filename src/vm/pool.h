/* pool.h: a stream-ordered pool (what cudaMallocAsync and cudaFreeAsync serve from) on the page
 * engine: one large range of addresses, whose pages come with its blocks and can be unmapped like
 * all idle pages. What is given back can be had again as arena.h says.
 *
 * One pool a device. Any thread may call; no lock is held across a driver call. A stream is a
 * handle as the driver knows it; 2, the stream of the calling thread, is another one in each. */
#pragma once

#include "vm/arena.h"
#include "vm/vm.h"

struct pool;

enum pool_answer {
    POOL_TAKEN,
    POOL_FULL,    /* the device is really full */
    POOL_NOT_OURS /* no stream of the pool's context, no address space, or an error that is no lack
                     of memory: the driver is to be asked */
};

/* total_bytes: of the device; the range is several times as large. NULL: addresses or memory
 * for the books cannot be had. The device's context is current; costs a driver call. */
struct pool *pool_open(struct vm *vm, uint64_t total_bytes);

/* A block that work on the stream may use from now on; it is mapped. *address is written with
 * POOL_TAKEN only. */
enum pool_answer pool_take(struct pool *pool, uint64_t bytes, uint64_t stream, uint64_t *address);

/* False: no block begins there, or there is no such stream; the driver is to be asked. STREAM_NONE
 * (cudaFree): all work on the block is over, says the API. */
bool pool_give(struct pool *pool, uint64_t address, uint64_t stream);

/* A stream is about to be destroyed: the next one with its handle is another one. */
void pool_stream_gone(struct pool *pool, uint64_t stream);

struct arena_figures pool_figures(struct pool *pool);
void pool_reset_high(struct pool *pool, bool used, bool reserved);

/* For a forked child, without a driver call: the lock is open. pool may be NULL. */
void pool_forget(struct pool *pool);
