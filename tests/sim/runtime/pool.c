/* Stream-ordered memory and its pools: straight calls of the driver, whose pools do the work. */
#include "runtime.h"

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    RT_ENTER();
    if (!pointer)
        return rt_fail(cudaErrorInvalidValue);
    *pointer = NULL;
    if (size == 0)
        return cudaSuccess;
    return rt_result(cu.cuMemAllocAsync((CUdeviceptr *)pointer, size, stream));
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool,
                                    cudaStream_t stream) {
    RT_ENTER();
    if (!pointer)
        return rt_fail(cudaErrorInvalidValue);
    *pointer = NULL;
    if (size == 0)
        return cudaSuccess;
    return rt_result(cu.cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, size, pool, stream));
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    RT_ENTER();
    if (!pointer)
        return cudaSuccess;
    return rt_result(cu.cuMemFreeAsync(RT_DEVICE_POINTER(pointer), stream));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    RT_LOAD();
    return rt_result(cu.cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    RT_LOAD();
    return rt_result(cu.cuDeviceGetMemPool(pool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    RT_LOAD();
    return rt_result(cu.cuDeviceSetMemPool(device, pool));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
    RT_CALL(cu.cuMemPoolCreate(pool, (const CUmemPoolProps *)properties));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    RT_CALL(cu.cuMemPoolDestroy(pool));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                    void *value) {
    RT_CALL(cu.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                    void *value) {
    RT_CALL(cu.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes) {
    RT_CALL(cu.cuMemPoolTrimTo(pool, keep_bytes));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                 size_t count) {
    RT_CALL(cu.cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)access, count));
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                 struct cudaMemLocation *location) {
    RT_CALL(cu.cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location));
}

cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
                                               enum cudaMemAllocationHandleType type,
                                               unsigned int flags) {
    RT_CALL(
        cu.cuMemPoolExportToShareableHandle(handle, pool, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
                                                 enum cudaMemAllocationHandleType type,
                                                 unsigned int flags) {
    RT_CALL(cu.cuMemPoolImportFromShareableHandle(pool, handle, (CUmemAllocationHandleType)type,
                                                  flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *pointer) {
    RT_CALL(cu.cuMemPoolExportPointer((CUmemPoolPtrExportData *)data, RT_DEVICE_POINTER(pointer)));
}

cudaError_t cudaMemPoolImportPointer(void **pointer, cudaMemPool_t pool,
                                     struct cudaMemPoolPtrExportData *data) {
    RT_CALL(
        cu.cuMemPoolImportPointer((CUdeviceptr *)pointer, pool, (CUmemPoolPtrExportData *)data));
}
