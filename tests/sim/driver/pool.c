/* The stream-ordered allocator. Pools really cache: what is freed stays reserved, up to the release
 * threshold, and is used again in the order of its stream at once, by other streams when the free
 * has run. Reserved memory grows in steps of 32 MiB where that fits, as users see on cards. */
#include "pool.h"
#include "capture.h"
#include "hard.h"
#include "latency.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)32 << 20)
#define UNIT_BYTES  ((size_t)512)

enum { REUSE_FOLLOW, REUSE_OPPORTUNISTIC, REUSE_INTERNAL };

static struct {
    struct pool *pools;
    struct range *chunks;  /* By address, over all pools. */
    size_t over_threshold; /* Pools that hold more than they should after the next wait. */
} pools;

static void set_defaults(struct pool *pool) {
    pool->release_threshold = 0;
    for (int i = 0; i < POOL_FLAGS; i++)
        pool->reuse[i] = 1;
    memset(pool->access, ACCESS_NONE, sizeof pool->access);
    pool->access[pool->device->ordinal] = ACCESS_ALL;
}

struct pool *pool_new(struct device *device) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->device = device;
    pool->kind = BLOCK_POOL;
    set_defaults(pool);
    pool->handle = (CUmemoryPool)handle_make(HANDLE_POOL, pool);
    pool->next = pools.pools;
    pools.pools = pool;
    return pool;
}

CUresult pool_device_init(struct device *device) {
    device->default_pool = pool_new(device);
    device->graph_pool = pool_new(device);
    if (device->default_pool == NULL || device->graph_pool == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    device->default_pool->is_default = device->graph_pool->is_default = true;
    device->graph_pool->release_threshold = UINT64_MAX; /* Until cuDeviceGraphMemTrim. */
    device->current_pool = device->default_pool;
    return CUDA_SUCCESS;
}

CUmemoryPool pool_handle(const struct pool *pool) {
    return pool != NULL ? pool->handle : NULL;
}

struct block *pool_chunk_block(uintptr_t address) {
    return (struct block *)ranges_find(pools.chunks, address);
}

/* ---- pieces ---- */

static bool piece_is_done(const struct piece *piece) {
    return piece->marker == NULL || piece->marker->done;
}

static void free_list_add(struct piece *piece) {
    struct pool *pool = piece->chunk->pool;
    piece->previous_free = NULL;
    piece->next_free = pool->free_pieces;
    if (pool->free_pieces != NULL)
        pool->free_pieces->previous_free = piece;
    pool->free_pieces = piece;
}

static void free_list_remove(struct piece *piece) {
    if (piece->previous_free != NULL)
        piece->previous_free->next_free = piece->next_free;
    else
        piece->chunk->pool->free_pieces = piece->next_free;
    if (piece->next_free != NULL)
        piece->next_free->previous_free = piece->previous_free;
}

static struct piece *piece_new(struct chunk *chunk, uintptr_t base, size_t bytes) {
    struct piece *piece = calloc(1, sizeof *piece);
    if (piece == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    piece->chunk = chunk;
    piece->base = base;
    piece->bytes = bytes;
    return piece;
}

/* Two free neighbours can become one if who may use one may use the other. */
static bool can_merge(const struct piece *low, const struct piece *high) {
    if (low == NULL || high == NULL || low->used || high->used)
        return false;
    if (piece_is_done(low) && piece_is_done(high))
        return true;
    return low->stream_id == high->stream_id;
}

static void merge(struct piece *low, struct piece *high) {
    bool high_is_later =
        high->marker != NULL && (low->marker == NULL || low->marker->ticket < high->marker->ticket);
    if (high_is_later) {
        struct marker *earlier = low->marker;
        low->marker = high->marker;
        low->stream_id = high->stream_id;
        high->marker = earlier;
    }
    marker_drop(high->marker);
    low->bytes += high->bytes;
    low->after = high->after;
    if (high->after != NULL)
        high->after->before = low;
    free_list_remove(high);
    free(high);
}

static struct piece *merge_around(struct piece *piece) {
    if (can_merge(piece, piece->after))
        merge(piece, piece->after);
    if (can_merge(piece->before, piece)) {
        piece = piece->before;
        merge(piece, piece->after);
    }
    return piece;
}

/* Frees that have run since make larger pieces possible. */
static void tidy(struct pool *pool) {
    struct piece *piece = pool->free_pieces;
    while (piece != NULL) {
        while (can_merge(piece, piece->after))
            merge(piece, piece->after);
        piece = piece->next_free;
    }
}

static void split(struct piece *piece, size_t bytes) {
    if (piece->bytes == bytes)
        return;
    struct piece *rest = piece_new(piece->chunk, piece->base + bytes, piece->bytes - bytes);
    rest->stream_id = piece->stream_id;
    if (piece->marker != NULL)
        rest->marker = marker_keep(piece->marker);
    rest->before = piece;
    rest->after = piece->after;
    if (rest->after != NULL)
        rest->after->before = rest;
    piece->after = rest;
    piece->bytes = bytes;
    free_list_add(rest);
}

/* ---- chunks ---- */

static struct chunk *chunk_new(struct pool *pool, size_t bytes) {
    if (pool->max_bytes != 0 && pool->reserved + bytes > pool->max_bytes)
        return NULL;
    struct phys *phys = phys_take(pool->device, bytes);
    uintptr_t base = phys != NULL ? space_take(bytes, PAGE_BYTES) : 0;
    bool seen = base != 0 && tables_take(pool->device, base, bytes);
    struct chunk *chunk = seen ? calloc(1, sizeof *chunk) : NULL;
    if (chunk == NULL) {
        if (base != 0)
            space_give_back(base, bytes);
        if (phys != NULL)
            phys_give_back(phys);
        return NULL;
    }
    phys->mappings = 1;
    chunk->pool = pool;
    chunk->view.at.base = chunk->view.phys_base = base;
    chunk->view.at.size_bytes = bytes;
    chunk->view.kind = BLOCK_POOL;
    chunk->view.device = pool->device;
    chunk->view.phys = phys;
    for (int i = 0; i < MAX_DEVICES; i++)
        chunk->view.access[i] = pool->access[i];
    ranges_insert(&pools.chunks, &chunk->view.at);
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    chunk->first = piece_new(chunk, base, bytes);
    free_list_add(chunk->first);
    pool->reserved += bytes;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return chunk;
}

static void chunk_delete(struct chunk *chunk) {
    struct pool *pool = chunk->pool;
    struct chunk **link = &pool->chunks;
    while (*link != chunk)
        link = &(*link)->next;
    *link = chunk->next;
    free_list_remove(chunk->first);
    marker_drop(chunk->first->marker);
    free(chunk->first);
    ranges_remove(&pools.chunks, &chunk->view.at);
    space_give_back(chunk->view.at.base, chunk->view.at.size_bytes);
    pool->reserved -= chunk->view.at.size_bytes;
    chunk->view.phys->mappings = 0;
    phys_give_back(chunk->view.phys);
    free(chunk);
}

static bool chunk_is_free(const struct chunk *chunk) {
    const struct piece *first = chunk->first;
    return !first->used && first->after == NULL && piece_is_done(first);
}

bool pool_trim(struct pool *pool, size_t keep_bytes) {
    bool any = false;
    tidy(pool);
    for (struct chunk *chunk = pool->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        size_t bytes = chunk->view.at.size_bytes;
        if (pool->reserved >= bytes && pool->reserved - bytes >= keep_bytes &&
            chunk_is_free(chunk)) {
            chunk_delete(chunk);
            any = true;
        }
    }
    return any;
}

bool pool_give_way(struct device *device) {
    bool any = false;
    for (struct pool *pool = pools.pools; pool != NULL; pool = pool->next)
        if (pool->device == device && pool_trim(pool, 0))
            any = true;
    return any;
}

static void pool_delete(struct pool *pool) {
    struct pool **link = &pools.pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool);
}

/* A destroyed pool goes when its last allocation has gone. */
static void finish_destroyed(struct pool *pool) {
    pool_trim(pool, 0);
    if (pool->chunks == NULL)
        pool_delete(pool);
}

void pool_synchronised(struct device *device) {
    if (pools.over_threshold == 0)
        return;
    pools.over_threshold = 0;
    for (struct pool *pool = pools.pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        if (pool->device == device && pool->reserved > pool->release_threshold)
            pool_trim(pool, pool->release_threshold);
        if (pool->reserved > pool->release_threshold && pool->free_pieces != NULL)
            pools.over_threshold++; /* Of this device, or some of it is not free yet. */
        if (pool->destroyed)
            finish_destroyed(pool);
    }
}

void pool_destroy(struct pool *pool) {
    handle_drop((uintptr_t)pool->handle);
    pool->destroyed = true;
    pool->release_threshold = 0;
    if (pool->device->current_pool == pool)
        pool->device->current_pool = pool->device->default_pool;
    pools.over_threshold++;
    finish_destroyed(pool);
}

/* ---- allocation ---- */

static bool usable(const struct pool *pool, const struct piece *piece,
                   const struct stream *stream) {
    if (piece->marker == NULL || piece->stream_id == stream->id)
        return true;
    if (piece->marker->done)
        return pool->reuse[REUSE_OPPORTUNISTIC];
    return pool->reuse[REUSE_FOLLOW] && stream_follows(stream, piece->marker);
}

/* The smallest free piece that is large enough; with ordered = false also one whose free has not
 * run in its stream. */
static struct piece *best_fit(struct pool *pool, const struct stream *stream, size_t bytes,
                              bool ordered) {
    struct piece *best = NULL;
    for (struct piece *piece = pool->free_pieces; piece != NULL; piece = piece->next_free) {
        if (piece->bytes < bytes || (ordered && !usable(pool, piece, stream)))
            continue;
        if (best == NULL || piece->bytes < best->bytes)
            best = piece;
        if (best->bytes == bytes)
            break;
    }
    return best;
}

static struct piece *grow(struct pool *pool, size_t bytes) {
    latency_pass(COST_MALLOC, ALIGN_UP(bytes, CHUNK_BYTES));
    struct chunk *chunk = chunk_new(pool, ALIGN_UP(bytes, CHUNK_BYTES));
    if (chunk == NULL)
        chunk = chunk_new(pool, ALIGN_UP(bytes, PAGE_BYTES));
    if (chunk == NULL && pool_give_way(pool->device))
        chunk = chunk_new(pool, ALIGN_UP(bytes, PAGE_BYTES));
    return chunk != NULL ? chunk->first : NULL;
}

static struct block *take(struct piece *piece, struct stream *stream, size_t bytes) {
    struct pool *pool = piece->chunk->pool;
    split(piece, ALIGN_UP(bytes, UNIT_BYTES));
    free_list_remove(piece);
    marker_drop(piece->marker);
    piece->marker = NULL;
    piece->used = true;
    pool->used += piece->bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    struct block *block = block_new(BLOCK_POOL, piece->base, bytes);
    block->context = stream->context;
    block->device = pool->device;
    block->phys = piece->chunk->view.phys;
    block->phys_base = piece->chunk->view.phys_base;
    for (int i = 0; i < MAX_DEVICES; i++)
        block->access[i] = pool->access[i];
    block->pool = pool;
    block->piece = piece;
    return block;
}

/* Uses memory that another stream has yet to free, by making this stream wait for that. It is taken
 * first, as the lock may be let go on the way. */
static struct block *take_after_other(struct pool *pool, struct stream *stream, size_t bytes) {
    if (!pool->reuse[REUSE_INTERNAL] || stream->capture != NULL)
        return NULL;
    struct piece *piece = best_fit(pool, stream, ALIGN_UP(bytes, UNIT_BYTES), false);
    if (piece == NULL)
        return NULL;
    if (piece->marker == NULL)
        return take(piece, stream, bytes); /* Freed while the pool tried to grow. */
    struct op op = {.kind = OP_WAIT, .marker = marker_keep(piece->marker)};
    struct block *block = take(piece, stream, bytes);
    if (queue_submit(stream, &op, 0) == CUDA_SUCCESS)
        return block;
    pool_free_after(block, op.marker);
    marker_drop(op.marker);
    return NULL;
}

CUresult pool_allocate(struct pool *pool, struct stream *stream, size_t bytes, struct block **out) {
    size_t rounded = ALIGN_UP(bytes, UNIT_BYTES);
    if (bytes == 0 || rounded < bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (rounded > sim.config.mem_bytes || device_refuses(pool->device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct piece *piece = best_fit(pool, stream, rounded, true);
    if (piece == NULL) {
        tidy(pool);
        piece = best_fit(pool, stream, rounded, true);
    }
    if (piece == NULL) {
        stream->waiters++; /* It stays while the lock is let go. */
        piece = grow(pool, rounded);
        stream->waiters--;
    }
    *out = piece != NULL ? take(piece, stream, bytes) : take_after_other(pool, stream, bytes);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- release ---- */

/* The piece is free for whoever comes after the marker; NULL means for everybody. */
static void give_back(struct block *block, const struct stream *stream, struct marker *marker) {
    struct piece *piece = block->piece;
    struct pool *pool = block->pool;
    pool->used -= piece->bytes;
    piece->used = false;
    piece->marker = marker;
    piece->stream_id = stream != NULL ? stream->id : 0;
    free_list_add(piece);
    merge_around(piece);
    if (pool->reserved > pool->release_threshold || pool->destroyed)
        pools.over_threshold++;
    block_delete(block);
}

void pool_free_after(struct block *block, struct marker *marker) {
    if (marker == NULL || marker->done)
        give_back(block, NULL, NULL);
    else
        give_back(block, marker->stream, marker_keep(marker));
}

void pool_free_now(struct block *block) {
    give_back(block, NULL, NULL);
}

CUresult pool_free(struct block *block, struct stream *stream) {
    struct op check = {.kind = OP_POOL_FREE,
                       .touch = {.address = block->at.base, .bytes = block->at.size_bytes}};
    struct op mark = {.kind = OP_MARK, .marker = marker_new(stream)};
    struct marker *marker = marker_keep(mark.marker); /* The operation may have run by the end. */
    CUresult result = queue_submit(stream, &check, 0);
    if (result == CUDA_SUCCESS)
        result = queue_submit(stream, &mark, 0);
    if (result != CUDA_SUCCESS) {
        marker_drop(mark.marker);
        marker_drop(marker);
        return result;
    }
    give_back(block, stream, marker);
    return CUDA_SUCCESS;
}

void pool_context_ended(struct context *context) {
    pool_synchronised(context->device);
}

/* Pools that the program made end with the device's reset; the default one is as new. */
void pool_sweep(struct device *device) {
    pool_give_way(device);
    for (struct pool *pool = pools.pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        if (pool->device == device && !pool->is_default && !pool->destroyed)
            pool_destroy(pool);
    }
    set_defaults(device->default_pool);
    device->current_pool = device->default_pool;
}
