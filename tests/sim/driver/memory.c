/* Allocation and release of device, managed and host memory, and how much is left. */
#include "memory.h"
#include "graph.h"
#include "hard.h"
#include "latency.h"

/* Reports a pointer that is not the start of something the call could free. */
static CUresult unknown_pointer(const char *call, uintptr_t pointer) {
    struct block *block = block_find(pointer);
    sim_fault("%s of %#zx, which is %s", call, (size_t)pointer,
              block == NULL               ? "not allocated (any more)"
              : block->at.base != pointer ? "inside an allocation, not its start"
                                          : "an allocation of another kind");
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes) {
    struct block *block;
    CUresult result = capture_forbids_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    latency_pass(COST_MALLOC, bytes);
    result = allocate_device(context_current(), bytes, &block);
    if (result != CUDA_SUCCESS)
        return result;
    *out = block->at.base;
    sim_log(1, "allocate %zu at %#zx", bytes, (size_t)block->at.base);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    END(allocate(out, bytes));
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned element_bytes) {
    if (out == NULL || pitch == NULL || width == 0 || height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = ALIGN_UP(width, (size_t)512);
    if (row < width || height > SIZE_MAX / row)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    CUresult result = allocate(out, row * height);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    END(result);
}

static bool can_free(const struct block *block, uintptr_t pointer) {
    return block != NULL && block->at.base == pointer && block->array == 0 &&
           (block->kind == BLOCK_DEVICE || block->kind == BLOCK_SMALL ||
            block->kind == BLOCK_POOL || block->kind == BLOCK_MANAGED);
}

/* As documented, pool memory is freed without waiting; the rest waits for the device. */
static CUresult free_device(uintptr_t pointer) {
    struct block *block = block_find(pointer);
    if (!can_free(block, pointer))
        return unknown_pointer("cuMemFree", pointer);
    if (block->graph_memory != NULL)
        return graph_memory_free(block) ? CUDA_SUCCESS : unknown_pointer("cuMemFree", pointer);
    if (block->kind == BLOCK_POOL) {
        if (queue_uses(pointer, block->at.size_bytes, NULL, UINT64_MAX))
            sim_fault("cuMemFree of pool memory at %#zx while queued work uses it",
                      (size_t)pointer);
    } else {
        CUresult result = capture_forbids_unsafe();
        if (result != CUDA_SUCCESS)
            return result;
        latency_pass(COST_FREE, block->at.size_bytes);
        queue_wait_device(context_current()->device);
    }
    block = block_find(pointer); /* The lock may have been let go. */
    if (!can_free(block, pointer))
        return unknown_pointer("cuMemFree", pointer);
    sim_log(1, "free %zu at %#zx", block->at.size_bytes, (size_t)pointer);
    release_block(block);
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    BEGIN(NEED_CONTEXT);
    END(pointer == 0 ? CUDA_SUCCESS : free_device(pointer));
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    BEGIN(NEED_CONTEXT);
    struct device *device = context_current()->device;
    CUresult result = capture_forbids_asking();
    if (result != CUDA_SUCCESS)
        END(result);
    latency_pass(COST_GET_INFO, 0);
    if (free_bytes != NULL)
        *free_bytes = device_free_bytes(device) - freed_untold(device);
    if (total_bytes != NULL)
        *total_bytes = (size_t)device->page_count * PAGE_BYTES;
    END(CUDA_SUCCESS);
}

static size_t books_of(int ordinal, size_t (*tell)(struct device *device)) {
    size_t bytes = 0;
    if (sim_begin(NEED_INIT) != CUDA_SUCCESS)
        return 0;
    struct device *device = device_of(ordinal);
    if (device != NULL)
        bytes = tell(device);
    sim_end(__func__, CUDA_SUCCESS);
    return bytes;
}

static size_t used_now(struct device *device) {
    return device_used_bytes(device);
}

size_t simgpu_used_bytes(int ordinal) {
    return books_of(ordinal, used_now);
}

static size_t most_used(struct device *device) {
    size_t bytes = device->most_bytes;
    device->most_bytes = device_used_bytes(device);
    return bytes;
}

size_t simgpu_most_used_bytes(int ordinal) {
    return books_of(ordinal, most_used);
}

/* Managed memory is host memory here: on a card it takes device memory only page by page, when the
 * device touches it, and gives way under pressure, so it is not charged to the device. */
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
    if (out == NULL || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct block *block;
    CUresult result = capture_forbids_unsafe();
    if (result == CUDA_SUCCESS)
        result = allocate_host(context_current(), BLOCK_MANAGED, bytes, &block);
    if (result == CUDA_SUCCESS)
        *out = block->at.base;
    END(result);
}

/* ---- host memory ---- */

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (out == NULL || bytes == 0 || (flags & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct block *block;
    CUresult result = capture_forbids_unsafe();
    if (result != CUDA_SUCCESS)
        END(result);
    latency_pass(COST_HOST_ALLOC, bytes);
    if (sim.config.host_mem_bytes != 0 && bytes > sim.config.host_mem_bytes)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    result = allocate_host(context_current(), BLOCK_HOST, bytes, &block);
    if (result != CUDA_SUCCESS)
        END(result);
    block->flags = flags;
    *out = (void *)block->at.base;
    END(CUDA_SUCCESS);
}

CUresult cuMemAllocHost_v2(void **out, size_t bytes) {
    return cuMemHostAlloc(out, bytes, 0);
}

static struct block *host_block(void *pointer, enum block_kind kind) {
    struct block *block = block_find((uintptr_t)pointer);
    bool matches = block != NULL && block->at.base == (uintptr_t)pointer && block->kind == kind;
    return matches ? block : NULL;
}

CUresult cuMemFreeHost(void *pointer) {
    BEGIN(NEED_CONTEXT);
    if (pointer == NULL)
        END(CUDA_SUCCESS);
    struct block *block = host_block(pointer, BLOCK_HOST);
    if (block == NULL)
        END(unknown_pointer("cuMemFreeHost", (uintptr_t)pointer));
    CUresult result = capture_forbids_unsafe();
    if (result != CUDA_SUCCESS)
        END(result);
    latency_pass(COST_HOST_FREE, block->at.size_bytes);
    queue_wait_device(context_current()->device);
    block = host_block(pointer, BLOCK_HOST); /* The lock may have been let go. */
    if (block == NULL)
        END(unknown_pointer("cuMemFreeHost", (uintptr_t)pointer));
    release_block(block);
    END(CUDA_SUCCESS);
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                           CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (pointer == NULL || bytes == 0 || (flags & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    if (block_overlap((uintptr_t)pointer, bytes) != NULL)
        END(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    if (address_is_device((uintptr_t)pointer))
        END(CUDA_ERROR_INVALID_VALUE);
    struct block *block = block_new(BLOCK_REGISTERED, (uintptr_t)pointer, bytes);
    block->context = context_current();
    block->device = block->context->device;
    block->flags = flags;
    for (int i = 0; i < MAX_DEVICES; i++)
        block->access[i] = ACCESS_ALL;
    END(CUDA_SUCCESS);
}

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned flags) {
    return cuMemHostRegister_v2(pointer, bytes, flags);
}

CUresult cuMemHostUnregister(void *pointer) {
    BEGIN(NEED_CONTEXT);
    if (host_block(pointer, BLOCK_REGISTERED) == NULL)
        END(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    queue_wait_device(context_current()->device);
    struct block *block = host_block(pointer, BLOCK_REGISTERED);
    if (block == NULL)
        END(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    block_delete(block);
    END(CUDA_SUCCESS);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer, unsigned flags) {
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct block *block = block_find((uintptr_t)pointer);
    if (block == NULL || !block_is_host(block))
        END(CUDA_ERROR_INVALID_VALUE);
    *out = (CUdeviceptr)pointer;
    END(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) {
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct block *block = block_find((uintptr_t)pointer);
    if (block == NULL || !block_is_host(block))
        END(CUDA_ERROR_INVALID_VALUE);
    *flags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP; /* Implied by unified addressing. */
    END(CUDA_SUCCESS);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice,
                        CUmemLocation location) {
    (void)advice;
    (void)location;
    BEGIN(NEED_CONTEXT);
    struct block *block = block_find(pointer);
    bool managed = block != NULL && block->kind == BLOCK_MANAGED && bytes > 0;
    END(managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device) {
    return cuMemAdvise_v2(pointer, bytes, advice,
                          (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device});
}
