/* What the driver knows about a pointer. */
#include "memory.h"

#include <string.h>

static bool pointer_attribute_known(CUpointer_attribute attribute) {
    return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
           attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

static bool lies_with_host(const struct block *block) {
    return block->kind == BLOCK_MAPPING && block->phys->device == NULL;
}

static unsigned memory_type(const struct block *block) {
    bool host =
        block->kind == BLOCK_HOST || block->kind == BLOCK_REGISTERED || lies_with_host(block);
    return host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

/* The handle types that memory of a pool or mapping can be exported as; plain memory has none. */
static unsigned long long handle_types(const struct block *block) {
    return block->kind == BLOCK_MAPPING ? block->phys->prop.requestedHandleTypes : 0;
}

static CUresult context_attribute(void *data, const struct block *block) {
    bool none = block->kind == BLOCK_MAPPING || block->kind == BLOCK_POOL;
    *(CUcontext *)data = none || block->context == NULL ? NULL : block->context->handle;
    return CUDA_SUCCESS;
}

static CUresult host_pointer(void *data, const struct block *block, uintptr_t pointer) {
    if (!block_is_host(block))
        return CUDA_ERROR_INVALID_VALUE;
    *(void **)data = (void *)pointer;
    return CUDA_SUCCESS;
}

static CUresult access_flags(void *data, const struct block *block) {
    struct context *context = context_current();
    int ordinal = context != NULL ? context->device->ordinal : 0;
    unsigned bits = block->access[ordinal];
    *(CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS *)data =
        bits & ACCESS_WRITE  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
        : bits & ACCESS_READ ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                             : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    return CUDA_SUCCESS;
}

#define GIVE(type, value)                                                                          \
    do {                                                                                           \
        *(type *)data = (type)(value);                                                             \
        return CUDA_SUCCESS;                                                                       \
    } while (0)

static CUresult attribute_of(void *data, CUpointer_attribute attribute, const struct block *block,
                             uintptr_t pointer) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return context_attribute(data, block);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        GIVE(unsigned, memory_type(block));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        GIVE(CUdeviceptr, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return host_pointer(data, block, pointer);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        GIVE(unsigned, block->sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        GIVE(unsigned long long, block->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        GIVE(unsigned, block->kind == BLOCK_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        GIVE(int, lies_with_host(block) ? CU_DEVICE_CPU : block->device->ordinal);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        GIVE(CUdeviceptr, block->at.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        GIVE(size_t, block->at.size_bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        GIVE(unsigned, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        GIVE(unsigned long long, handle_types(block));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        GIVE(unsigned, block->kind == BLOCK_DEVICE || block->kind == BLOCK_SMALL);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        GIVE(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return access_flags(data, block);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        GIVE(CUmemoryPool, pool_handle(block->pool));
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer) {
    if (data == NULL || !pointer_attribute_known(attribute))
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct block *block = block_find(pointer);
    if (block == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    END(attribute_of(data, attribute, block, pointer));
}

/* Bytes that an attribute takes, to clear it where nothing is known. */
static size_t attribute_bytes(CUpointer_attribute attribute) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return 4;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
    default:
        return 8;
    }
}

/* As documented: an unknown pointer is no error, its attributes are null, its device is -2. */
static void clear(void *data, CUpointer_attribute attribute) {
    memset(data, 0, attribute_bytes(attribute));
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)data = -2;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr pointer) {
    if (count == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (!pointer_attribute_known(attributes[i]) || data[i] == NULL)
            return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct block *block = block_find(pointer);
    for (unsigned i = 0; i < count; i++)
        if (block == NULL || attribute_of(data[i], attributes[i], block, pointer) != CUDA_SUCCESS)
            clear(data[i], attributes[i]);
    END(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
    if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct block *block = block_find(pointer);
    if (block == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    block->sync_memops = *(const unsigned *)value != 0;
    END(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    BEGIN(NEED_CONTEXT);
    struct block *block = block_find(pointer);
    if (block == NULL)
        END(CUDA_ERROR_NOT_FOUND);
    if (base != NULL)
        *base = block->at.base;
    if (bytes != NULL)
        *bytes = block->at.size_bytes;
    END(CUDA_SUCCESS);
}
