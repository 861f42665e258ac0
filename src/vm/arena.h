/* arena.h: who has which addresses of a stream-ordered pool: best fit in one large range, with
 * coalescing. What is given back may be had again at once by the stream that gave it (work runs in
 * the order of its stream), by others when the GPU is known to have come past that moment. Where
 * nothing is large enough, what the stream gave back at the edge of what no block has had yet grows
 * into that. Small requests have a part of the range of their own, so that pages of large ones
 * empty.
 *
 * Pure: knows no CUDA, takes no lock, and never touches the memory it deals out. Moments are epochs
 * of the page engine; a stream is known by its handle, and forgotten when it is destroyed. */
#pragma once

#include "base/base.h"

/* As PyTorch's allocator: kMinBlockSize; kSmallSize, the largest request that is small. */
#define ARENA_GRAIN_BYTES ((uint64_t)512)
#define ARENA_SMALL_BYTES ((uint64_t)1 << 20)

struct arena;

struct arena_figures {
    uint64_t blocks;     /* handed out */
    uint64_t used_bytes; /* in them, rounded up to the grain */
    uint64_t used_high_bytes;
    uint64_t page_bytes; /* of 2 MiB pages that a block reaches into */
    uint64_t page_high_bytes;
    uint64_t waiting_bytes; /* given back, and not for everybody yet */
};

/* A block on its way, bytes rounded up to the grain. */
struct arena_block {
    uint64_t address, bytes;
    void *chunk; /* NULL: no such block */
};

/* The range [address, address + bytes), of which the last small_bytes are for small requests; all
 * three are multiples of 2 MiB. NULL: no memory for the books. */
struct arena *arena_open(uint64_t address, uint64_t bytes, uint64_t small_bytes);
void arena_close(struct arena *arena);

/* Hands out a block that work on the stream may use from now on; chunk NULL: no room, or bytes is
 * 0. */
struct arena_block arena_take(struct arena *arena, uint64_t bytes, uint64_t stream);

/* A block is given back in two steps: after the first no other thread can give it back, after the
 * second it can be had again. epoch: the engine's clock, read after the first step. stream: may
 * have it at once; STREAM_NONE: none may before the GPU has come past that epoch. */
struct arena_block arena_claim(struct arena *arena, uint64_t address);
void arena_give(struct arena *arena, const struct arena_block *block, uint64_t stream,
                uint64_t epoch);

/* The GPU has finished with everything that was given back up to this epoch. */
void arena_fence(struct arena *arena, uint64_t epoch);

/* The stream is about to be destroyed: the next one with this handle is another one. */
void arena_stream_gone(struct arena *arena, uint64_t stream);

/* Given back, and waiting, by other streams than this one. */
uint64_t arena_foreign_bytes(const struct arena *arena, uint64_t stream);

struct arena_figures arena_figures(const struct arena *arena);

/* Both high marks are as of now. */
void arena_reset_high(struct arena *arena, bool used, bool pages);

/* All invariants, counted anew; for tests. */
bool arena_is_valid(const struct arena *arena);
