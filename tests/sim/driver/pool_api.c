/* The public calls on memory pools. */
#include "capture.h"
#include "graph.h"
#include "latency.h"
#include "pool.h"

#include <time.h>

static struct pool *pool_of(CUmemoryPool handle) {
    struct pool *pool = handle_get((uintptr_t)handle, HANDLE_POOL);
    if (pool == NULL || pool->destroyed) {
        sim_fault("memory pool %p does not exist", (void *)handle);
        return NULL;
    }
    return pool;
}

/* ---- pools of a device ---- */

static CUresult give_pool(CUmemoryPool *out, CUdevice ordinal, bool current) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    *out = pool_handle(current ? device->current_pool : device->default_pool);
    END(CUDA_SUCCESS);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
    return give_pool(out, device, false);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) {
    return give_pool(out, device, true);
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    struct pool *pool = pool_of(handle);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    if (pool == NULL || pool->device != device)
        END(CUDA_ERROR_INVALID_VALUE);
    device->current_pool = pool;
    END(CUDA_SUCCESS);
}

/* The default and the current pool of a location, in the form of CUDA 13. */
static CUresult check_location(const CUmemLocation *location, CUmemAllocationType type) {
    if (location == NULL || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED; /* Default pools of host memory are not simulated. */
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location,
                                CUmemAllocationType type) {
    CUresult result = check_location(location, type);
    return result == CUDA_SUCCESS ? give_pool(out, location->id, false) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type) {
    CUresult result = check_location(location, type);
    return result == CUDA_SUCCESS ? give_pool(out, location->id, true) : result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    CUresult result = check_location(location, type);
    return result == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : result;
}

/* ---- pools as objects ---- */

static bool of_host(const CUmemLocation *location) {
    return location->type == CU_MEM_LOCATION_TYPE_HOST ||
           location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
    bool managed = props != NULL && props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
    if (out == NULL || props == NULL ||
        (!managed && props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED))
        return CUDA_ERROR_INVALID_VALUE;
    bool host = !managed && of_host(&props->location);
    if (props->handleTypes != 0)
        return CUDA_ERROR_NOT_SUPPORTED; /* Export is not simulated. */
    BEGIN(NEED_INIT);
    struct device *device = device_of(host || managed ? 0 : props->location.id);
    struct pool *pool = device != NULL ? pool_new(device) : NULL;
    if (pool == NULL)
        END(device == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY);
    pool->kind = host ? BLOCK_HOST : managed ? BLOCK_MANAGED : BLOCK_POOL;
    pool->max_bytes = props->maxSize;
    *out = pool->handle;
    END(CUDA_SUCCESS);
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
    BEGIN(NEED_INIT);
    struct pool *pool = pool_of(handle);
    if (pool == NULL || pool->is_default)
        END(CUDA_ERROR_INVALID_VALUE);
    pool_destroy(pool);
    END(CUDA_SUCCESS);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
    BEGIN(NEED_INIT);
    struct pool *pool = pool_of(handle);
    if (pool == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    size_t before = pool->reserved;
    if (pool_trim(pool, keep_bytes))
        latency_pass(COST_FREE, before - pool->reserved);
    END(CUDA_SUCCESS);
}

/* High marks can only be reset, that is set to zero. */
static CUresult reset_high(const cuuint64_t *value, size_t *high, size_t current) {
    if (*value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *high = current;
    return CUDA_SUCCESS;
}

static CUresult set_attribute(struct pool *pool, CUmemPool_attribute attribute, void *value) {
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->release_threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return reset_high(value, &pool->reserved_high, pool->reserved);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return reset_high(value, &pool->used_high, pool->used);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct pool *pool = pool_of(handle);
    END(pool == NULL ? CUDA_ERROR_INVALID_VALUE : set_attribute(pool, attribute, value));
}

static CUresult get_attribute(const struct pool *pool, CUmemPool_attribute attribute, void *value) {
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->release_threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult attribute_of(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    BEGIN(NEED_INIT);
    struct pool *pool = pool_of(handle);
    END(pool == NULL ? CUDA_ERROR_INVALID_VALUE : get_attribute(pool, attribute, value));
}

/* A thread may lose its processor between the answer and what it does with that. */
CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = attribute_of(handle, attribute, value);
    struct timespec later = {.tv_sec = sim.config.pool_answer_ms / 1000,
                             .tv_nsec = sim.config.pool_answer_ms % 1000 * 1000000};
    nanosleep(&later, NULL);
    return result;
}

static CUresult set_access(struct pool *pool, const CUmemAccessDesc *entry) {
    struct device *device = device_of(entry->location.id);
    if (entry->location.type != CU_MEM_LOCATION_TYPE_DEVICE || device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == pool->device && entry->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_DEVICE; /* The owner's access can't be taken away. */
    pool->access[device->ordinal] = (uint8_t)entry->flags;
    for (struct chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        chunk->view.access[device->ordinal] = (uint8_t)entry->flags;
        for (struct piece *piece = chunk->first; piece != NULL; piece = piece->after)
            if (piece->used)
                block_find(piece->base)->access[device->ordinal] = (uint8_t)entry->flags;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *list, size_t count) {
    if (list == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct pool *pool = pool_of(handle);
    CUresult result = pool == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = set_access(pool, &list[i]);
    END(result);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                            CUmemLocation *location) {
    if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct pool *pool = pool_of(handle);
    struct device *device = device_of(location->id);
    if (pool == NULL || device == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    *flags = (CUmemAccess_flags)pool->access[device->ordinal];
    END(CUDA_SUCCESS);
}

/* ---- allocation in the order of a stream ---- */

/* Host and managed memory is not kept by its pool. */
static CUresult allocate_with_host(struct pool *pool, struct stream *stream, size_t bytes,
                                   struct block **out) {
    latency_pass(COST_HOST_ALLOC, bytes);
    CUresult result = allocate_host(stream->context, pool->kind, bytes, out);
    if (result == CUDA_SUCCESS)
        (*out)->pool = pool;
    return result;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, struct pool *pool, struct stream *stream) {
    struct block *block;
    CUresult result = stream->capture != NULL    ? graph_allocate(stream, bytes, &block)
                      : pool->kind == BLOCK_POOL ? pool_allocate(pool, stream, bytes, &block)
                                                 : allocate_with_host(pool, stream, bytes, &block);
    if (result != CUDA_SUCCESS)
        return result;
    *out = block->at.base;
    sim_log(1, "allocate %zu at %#zx in stream %llu", bytes, (size_t)block->at.base, stream->id);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    if (stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    END(allocate(out, bytes, stream->context->device->current_pool, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool_handle_in,
                                 CUstream handle) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    struct pool *pool = pool_of(pool_handle_in);
    if (stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (pool == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    END(allocate(out, bytes, pool, stream));
}

static bool is_plain(const struct block *block, uintptr_t pointer) {
    return block != NULL && block->at.base == pointer &&
           (block->kind == BLOCK_DEVICE || block->kind == BLOCK_SMALL ||
            (block->pool != NULL && block->kind != BLOCK_POOL));
}

static CUresult free_async(uintptr_t pointer, struct stream *stream) {
    struct block *block = block_find(pointer);
    bool known = block != NULL && block->at.base == pointer;
    if (known && stream->capture != NULL)
        return graph_free(stream, block);
    if (known && block->graph_memory != NULL && graph_memory_free(block))
        return CUDA_SUCCESS;
    if (known && block->graph_memory == NULL && block->kind == BLOCK_POOL)
        return pool_free(block, stream);
    /* Allowed by the runtime's documentation for plain memory as well; it may wait. */
    if (is_plain(block, pointer)) {
        queue_wait_device(stream->context->device);
        block = block_find(pointer); /* The lock may have been let go. */
    }
    if (is_plain(block, pointer)) {
        release_block(block);
        return CUDA_SUCCESS;
    }
    sim_fault("cuMemFreeAsync of %#zx, which %s (any more)", (size_t)pointer,
              block != NULL && block->graph_memory != NULL ? "no launch of its graph has allocated"
                                                           : "is not allocated");
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    if (stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (pointer == 0)
        END(CUDA_ERROR_INVALID_VALUE);
    END(free_async(pointer, stream));
}
