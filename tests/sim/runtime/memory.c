/* Memory: allocate, free, register, ask, share between processes. Sizes are bytes; the driver keeps
 * the accounts. */
#include "runtime.h"

#include <string.h>

/* Zero bytes succeed with a null pointer, as in the vendor's runtime. */
cudaError_t cudaMalloc(void **pointer, size_t size) {
    RT_ENTER();
    if (!pointer)
        return rt_fail(cudaErrorInvalidValue);
    *pointer = NULL;
    if (size == 0)
        return cudaSuccess;
    return rt_result(cu.cuMemAlloc((CUdeviceptr *)pointer, size));
}

/* cudaFree(NULL) does nothing but make the context. */
cudaError_t cudaFree(void *pointer) {
    RT_ENTER();
    if (!pointer)
        return cudaSuccess;
    return rt_result(cu.cuMemFree(RT_DEVICE_POINTER(pointer)));
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    RT_ENTER();
    if (!pointer || !pitch)
        return rt_fail(cudaErrorInvalidValue);
    if (width == 0 || height == 0) {
        *pointer = NULL;
        *pitch = 0;
        return cudaSuccess;
    }
    return rt_result(cu.cuMemAllocPitch((CUdeviceptr *)pointer, pitch, width, height, 4));
}

/* Slices one after the other, each of whole rows. */
cudaError_t cudaMalloc3D(struct cudaPitchedPtr *volume, struct cudaExtent extent) {
    void *pointer = NULL;
    size_t pitch = 0;
    if (!volume)
        return rt_fail(cudaErrorInvalidValue);
    cudaError_t result =
        cudaMallocPitch(&pointer, &pitch, extent.width, extent.height * extent.depth);
    if (result == cudaSuccess)
        *volume = (struct cudaPitchedPtr){pointer, pitch, extent.width, extent.height};
    return result;
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags) {
    RT_CALL(cu.cuMemAllocManaged((CUdeviceptr *)pointer, size, flags));
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags) {
    RT_ENTER();
    if (!pointer)
        return rt_fail(cudaErrorInvalidValue);
    *pointer = NULL;
    if (size == 0)
        return cudaSuccess;
    return rt_result(cu.cuMemHostAlloc(pointer, size, flags));
}

cudaError_t cudaMallocHost(void **pointer, size_t size) {
    return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *pointer) {
    RT_ENTER();
    return pointer ? rt_result(cu.cuMemFreeHost(pointer)) : cudaSuccess;
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags) {
    RT_CALL(cu.cuMemHostRegister(pointer, size, flags));
}

cudaError_t cudaHostUnregister(void *pointer) {
    RT_CALL(cu.cuMemHostUnregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void **device_pointer, void *pointer, unsigned int flags) {
    RT_CALL(cu.cuMemHostGetDevicePointer((CUdeviceptr *)device_pointer, pointer, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *pointer) {
    RT_CALL(cu.cuMemHostGetFlags(flags, pointer));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    RT_CALL(cu.cuMemGetInfo(free_bytes, total_bytes));
}

/* The driver leaves the initial values for memory that it does not know. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *pointer) {
    RT_ENTER();
    if (!attributes)
        return rt_fail(cudaErrorInvalidValue);
    unsigned memory_type = 0;
    unsigned managed = 0;
    int device = -2;
    CUdeviceptr device_pointer = 0;
    void *host_pointer = NULL;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&memory_type, &device_pointer, &host_pointer, &managed, &device};
    cudaError_t error =
        rt_result(cu.cuPointerGetAttributes(5, wanted, answers, RT_DEVICE_POINTER(pointer)));
    if (error != cudaSuccess)
        return error;
    memset(attributes, 0, sizeof *attributes);
    attributes->type = cudaMemoryTypeUnregistered;
    if (managed)
        attributes->type = cudaMemoryTypeManaged;
    else if (memory_type == CU_MEMORYTYPE_HOST)
        attributes->type = cudaMemoryTypeHost;
    else if (memory_type == CU_MEMORYTYPE_DEVICE)
        attributes->type = cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = (void *)(uintptr_t)device_pointer;
    attributes->hostPointer = memory_type ? host_pointer : (void *)(uintptr_t)pointer;
    return cudaSuccess;
}

cudaError_t cudaMemset(void *pointer, int value, size_t count) {
    RT_ENTER();
    if (count == 0)
        return cudaSuccess;
    return rt_result(cu.cuMemsetD8(RT_DEVICE_POINTER(pointer), (unsigned char)value, count));
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t count, cudaStream_t stream) {
    RT_ENTER();
    if (count == 0)
        return cudaSuccess;
    return rt_result(
        cu.cuMemsetD8Async(RT_DEVICE_POINTER(pointer), (unsigned char)value, count, stream));
}

cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height) {
    RT_ENTER();
    if (width == 0 || height == 0)
        return cudaSuccess;
    return rt_result(
        cu.cuMemsetD2D8(RT_DEVICE_POINTER(pointer), pitch, (unsigned char)value, width, height));
}

cudaError_t cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
    RT_ENTER();
    if (width == 0 || height == 0)
        return cudaSuccess;
    return rt_result(cu.cuMemsetD2D8Async(RT_DEVICE_POINTER(pointer), pitch, (unsigned char)value,
                                          width, height, stream));
}

/* --- managed memory: the interface changed in CUDA 13 from a device ordinal to a location --- */

static CUmemLocation location_of_device(int device) {
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    if (device == cudaCpuDeviceId) {
        location.type = CU_MEM_LOCATION_TYPE_HOST;
        location.id = 0;
    }
    return location;
}

#if CUDART_VERSION >= 12020
static CUmemLocation driver_location(struct cudaMemLocation location) {
    CUmemLocation converted = location_of_device(location.id);
    converted.type = (CUmemLocationType)location.type;
    return converted;
}
#endif

#if CUDART_VERSION >= 13000
#define ADVISE_BY_LOCATION   cudaMemAdvise
#define PREFETCH_BY_LOCATION cudaMemPrefetchAsync
#elif CUDART_VERSION >= 12020
#define ADVISE_BY_LOCATION   cudaMemAdvise_v2
#define PREFETCH_BY_LOCATION cudaMemPrefetchAsync_v2
#endif

#ifdef ADVISE_BY_LOCATION
cudaError_t ADVISE_BY_LOCATION(const void *pointer, size_t count, enum cudaMemoryAdvise advice,
                               struct cudaMemLocation location) {
    RT_CALL(cu.cuMemAdvise(RT_DEVICE_POINTER(pointer), count, (CUmem_advise)advice,
                           driver_location(location)));
}

cudaError_t PREFETCH_BY_LOCATION(const void *pointer, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream) {
    RT_CALL(cu.cuMemPrefetchAsync(RT_DEVICE_POINTER(pointer), count, driver_location(location),
                                  flags, stream));
}
#endif

#if CUDART_VERSION < 13000
cudaError_t cudaMemAdvise(const void *pointer, size_t count, enum cudaMemoryAdvise advice,
                          int device) {
    RT_CALL(cu.cuMemAdvise(RT_DEVICE_POINTER(pointer), count, (CUmem_advise)advice,
                           location_of_device(device)));
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t count, int device,
                                 cudaStream_t stream) {
    RT_CALL(cu.cuMemPrefetchAsync(RT_DEVICE_POINTER(pointer), count, location_of_device(device), 0,
                                  stream));
}
#endif

/* --- sharing with other processes: the handles of driver and runtime are the same 64 bytes --- */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
    RT_CALL(cu.cuIpcGetMemHandle((CUipcMemHandle *)handle, RT_DEVICE_POINTER(pointer)));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
    CUipcMemHandle driver_handle;
    memcpy(&driver_handle, &handle, sizeof driver_handle);
    RT_CALL(cu.cuIpcOpenMemHandle((CUdeviceptr *)pointer, driver_handle, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *pointer) {
    RT_CALL(cu.cuIpcCloseMemHandle(RT_DEVICE_POINTER(pointer)));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    RT_CALL(cu.cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    CUipcEventHandle driver_handle;
    memcpy(&driver_handle, &handle, sizeof driver_handle);
    RT_CALL(cu.cuIpcOpenEventHandle(event, driver_handle));
}
