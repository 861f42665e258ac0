/* fake_runtime.c: the runtime of the fake device (fake_cuda.h): a thin client of the driver,
 * through the wrappers, as with any real one. */
#include "fake_cuda.h"
#include "fake_install.h"

static cudaError_t runtime_result(CUresult result) {
    return result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : (cudaError_t)result;
}

static cudaError_t fake_cudaMalloc(void **p, size_t n) {
    return runtime_result(cuMemAlloc_v2((CUdeviceptr *)p, n));
}

static cudaError_t fake_cudaFree(void *p) {
    return runtime_result(cuMemFree_v2((CUdeviceptr)p));
}

static cudaError_t fake_cudaMallocManaged(void **p, size_t n, unsigned f) {
    return runtime_result(cuMemAllocManaged((CUdeviceptr *)p, n, f));
}

static cudaError_t fake_cudaHostAlloc(void **p, size_t n, unsigned f) {
    return runtime_result(cuMemHostAlloc(p, n, f));
}

static cudaError_t fake_cudaFreeHost(void *p) {
    return runtime_result(cuMemFreeHost(p));
}

static cudaError_t fake_cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
    return runtime_result(cuMemAllocAsync((CUdeviceptr *)p, n, s));
}

static cudaError_t fake_cudaFreeAsync(void *p, cudaStream_t s) {
    return runtime_result(cuMemFreeAsync((CUdeviceptr)p, s));
}

static cudaError_t fake_cudaMemGetInfo(size_t *free, size_t *total) {
    return runtime_result(cuMemGetInfo_v2(free, total));
}

static cudaError_t fake_cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *c) {
    (void)s;
    *c = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

static cudaError_t fake_cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    (void)e;
    (void)s;
    return cudaSuccess;
}

static cudaError_t fake_cudaEventQuery(cudaEvent_t e) {
    (void)e;
    return fake_random(2) ? cudaSuccess : cudaErrorNotReady;
}

void fake_install_runtime(void) {
    INSTALL(cudaMalloc);
    INSTALL(cudaFree);
    INSTALL(cudaMallocManaged);
    INSTALL(cudaHostAlloc);
    INSTALL(cudaFreeHost);
    INSTALL(cudaMallocAsync);
    INSTALL(cudaFreeAsync);
    INSTALL(cudaMemGetInfo);
    INSTALL(cudaStreamIsCapturing);
    INSTALL(cudaEventRecord);
    INSTALL(cudaEventQuery);
}
