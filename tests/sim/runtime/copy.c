/* Copies. The kind chooses the driver call; what moves, and when, is the driver's business. */
#include "runtime.h"

#include <string.h>

cudaError_t cudaMemcpy(void *destination, const void *source, size_t count,
                       enum cudaMemcpyKind kind) {
    RT_ENTER();
    if (count == 0)
        return cudaSuccess;
    CUdeviceptr to = RT_DEVICE_POINTER(destination);
    CUdeviceptr from = RT_DEVICE_POINTER(source);
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_result(cu.cuMemcpyHtoD(to, source, count));
    case cudaMemcpyDeviceToHost:
        return rt_result(cu.cuMemcpyDtoH(destination, from, count));
    case cudaMemcpyDeviceToDevice:
        return rt_result(cu.cuMemcpyDtoD(to, from, count));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return rt_result(cu.cuMemcpy(to, from, count));
    default:
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t cudaMemcpyAsync(void *destination, const void *source, size_t count,
                            enum cudaMemcpyKind kind, cudaStream_t stream) {
    RT_ENTER();
    if (count == 0)
        return cudaSuccess;
    CUdeviceptr to = RT_DEVICE_POINTER(destination);
    CUdeviceptr from = RT_DEVICE_POINTER(source);
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_result(cu.cuMemcpyHtoDAsync(to, source, count, stream));
    case cudaMemcpyDeviceToHost:
        return rt_result(cu.cuMemcpyDtoHAsync(destination, from, count, stream));
    case cudaMemcpyDeviceToDevice:
        return rt_result(cu.cuMemcpyDtoDAsync(to, from, count, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return rt_result(cu.cuMemcpyAsync(to, from, count, stream));
    default:
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t cudaMemcpyPeer(void *destination, int destination_device, const void *source,
                           int source_device, size_t count) {
    RT_ENTER();
    CUcontext to = NULL;
    CUcontext from = NULL;
    cudaError_t error = rt_primary_context(destination_device, &to);
    if (error == cudaSuccess)
        error = rt_primary_context(source_device, &from);
    if (error != cudaSuccess || count == 0)
        return error;
    return rt_result(cu.cuMemcpyPeer(RT_DEVICE_POINTER(destination), to, RT_DEVICE_POINTER(source),
                                     from, count));
}

cudaError_t cudaMemcpyPeerAsync(void *destination, int destination_device, const void *source,
                                int source_device, size_t count, cudaStream_t stream) {
    RT_ENTER();
    CUcontext to = NULL;
    CUcontext from = NULL;
    cudaError_t error = rt_primary_context(destination_device, &to);
    if (error == cudaSuccess)
        error = rt_primary_context(source_device, &from);
    if (error != cudaSuccess || count == 0)
        return error;
    return rt_result(cu.cuMemcpyPeerAsync(RT_DEVICE_POINTER(destination), to,
                                          RT_DEVICE_POINTER(source), from, count, stream));
}

static CUmemorytype source_type(enum cudaMemcpyKind kind) {
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_DEVICE;
}

static CUmemorytype destination_type(enum cudaMemcpyKind kind) {
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY2D copy_2d(void *destination, size_t destination_pitch, const void *source,
                             size_t source_pitch, size_t width, size_t height,
                             enum cudaMemcpyKind kind) {
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = source_type(kind);
    copy.srcHost = source;
    copy.srcDevice = RT_DEVICE_POINTER(source);
    copy.srcPitch = source_pitch;
    copy.dstMemoryType = destination_type(kind);
    copy.dstHost = destination;
    copy.dstDevice = RT_DEVICE_POINTER(destination);
    copy.dstPitch = destination_pitch;
    copy.WidthInBytes = width;
    copy.Height = height;
    return copy;
}

/* Rows that are wider than their pitch would overlap. */
static cudaError_t check_2d(size_t destination_pitch, size_t source_pitch, size_t width,
                            enum cudaMemcpyKind kind) {
    if (width > destination_pitch || width > source_pitch)
        return rt_fail(cudaErrorInvalidPitchValue);
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void *destination, size_t destination_pitch, const void *source,
                         size_t source_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind) {
    RT_ENTER();
    cudaError_t error = check_2d(destination_pitch, source_pitch, width, kind);
    if (error != cudaSuccess || width == 0 || height == 0)
        return error;
    CUDA_MEMCPY2D copy =
        copy_2d(destination, destination_pitch, source, source_pitch, width, height, kind);
    return rt_result(cu.cuMemcpy2DUnaligned(&copy));
}

cudaError_t cudaMemcpy2DAsync(void *destination, size_t destination_pitch, const void *source,
                              size_t source_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
    RT_ENTER();
    cudaError_t error = check_2d(destination_pitch, source_pitch, width, kind);
    if (error != cudaSuccess || width == 0 || height == 0)
        return error;
    CUDA_MEMCPY2D copy =
        copy_2d(destination, destination_pitch, source, source_pitch, width, height, kind);
    return rt_result(cu.cuMemcpy2DAsync(&copy, stream));
}
