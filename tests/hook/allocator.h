/* allocator.h: a small caching allocator that makes the calls PyTorch's makes, in their order:
 * for the stress test. It lies in a library named as PyTorch's, because vramgc knows it by that. */
#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

enum { ALLOCATOR_DEVICES = 2 };
#define ALLOCATOR_SEGMENT_BYTES ((uint64_t)2 << 20)
#define ALLOCATOR_BLOCK_BYTES   ((uint64_t)512 << 10)

/* A stream whose segments are never given back, as those of a live graph's pool. */
enum { ALLOCATOR_PRIVATE = 6 };

struct allocator_sums {
    uint64_t segments, allocated_blocks, pending_blocks, ooms;
};

/* A block of the device, which must be current; NULL: out of memory. stream: each has segments
 * of its own, so that some can be idle when others are full. */
void *allocator_take(int device, unsigned stream);

/* events: how many other streams still use the block. */
void allocator_give(int device, void *block, unsigned events);

/* As torch.cuda.empty_cache. */
void allocator_empty_cache(int device);

/* The device was reset: forget everything. */
void allocator_forget(int device);

struct allocator_sums allocator_sums(int device);

#endif
