/* Memory pools. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "memory.h"
#include "queue.h"

/* A part of a chunk. Pieces of a chunk are linked in address order, free ones of a pool as well in
 * a list of their own. */
struct piece {
    struct chunk *chunk;
    uintptr_t base;
    size_t bytes;
    bool used;
    struct piece *before, *after;
    struct piece *previous_free, *next_free;
    unsigned long long stream_id; /* Whose free it was. */
    struct marker *marker;        /* Reached when the free has run; NULL = long ago. */
};

/* What a pool took from the device in one go. Freed as a whole, when all of it is free. */
struct chunk {
    struct block view; /* For checking and translating addresses; not in the map of blocks. */
    struct pool *pool;
    struct chunk *next;
    struct piece *first;
};

enum { POOL_FLAGS = 3 };

struct pool {
    CUmemoryPool handle;
    struct pool *next;
    struct device *device;
    enum block_kind kind; /* BLOCK_POOL; of host or managed memory: BLOCK_HOST, BLOCK_MANAGED */
    bool is_default, destroyed;
    uint64_t release_threshold;
    int reuse[POOL_FLAGS]; /* follow event dependencies, opportunistic, internal dependencies */
    size_t max_bytes;      /* 0 = no limit. */
    size_t reserved, reserved_high, used, used_high;
    uint8_t access[MAX_DEVICES];
    struct chunk *chunks;
    struct piece *free_pieces;
};

/* pool.c: the allocator */
struct pool *pool_new(struct device *device);
CUresult pool_allocate(struct pool *pool, struct stream *stream, size_t bytes, struct block **out);
/* Frees in the order of a stream. */
CUresult pool_free(struct block *block, struct stream *stream);
/* Frees in the order of a marker; NULL frees at once. */
void pool_free_after(struct block *block, struct marker *marker);
/* Gives free chunks back until no more than keep_bytes are reserved. True if any was given. */
bool pool_trim(struct pool *pool, size_t keep_bytes);
void pool_destroy(struct pool *pool);

#endif
