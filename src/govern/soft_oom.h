/* soft_oom.h: a call for memory of PyTorch's allocator may be answered with out of memory, so
 * that it empties its cache and asks again. On the thread that asks. */
#pragma once

#include "track/device.h"

/* Is this cudaMalloc to be answered so? allocator: the caller is PyTorch's caching
 * allocator; for others never, but a reclaim that is due is left to the background thread. */
bool soft_oom_at_malloc(bool allocator, uint64_t bytes);

/* PyTorch's allocator got a page of an expandable segment: those grow without a cudaMalloc. If this
 * growth crosses the threshold, our own thread looks now and not at its next step. */
void soft_oom_page_created(const CUmemAllocationProp *properties);

/* The block has come, in the same thread; or PyTorch reports an error for the request. */
void soft_oom_block_came(struct device *device);
void soft_oom_reported(unsigned device, uint64_t bytes);
