/* peer.c: wrappers of what lets other devices and other processes use memory. Pages of the engine
 * are mapped memory, which peer access alone does not open, which a plain copy from another device
 * does not reach, and which the older way of sharing between processes refuses. */
#include "hook/hook.h"
#include "serve/peer_access.h"
#include "serve/sharing.h"

static int current_device(void) {
    real_cuCtxGetDevice_t get = REAL(cuCtxGetDevice);
    CUdevice device = -1;
    return get && get(&device) == CUDA_SUCCESS ? device : -1;
}

static int device_of(CUcontext context) {
    real_cuCtxSetCurrent_t set = REAL(cuCtxSetCurrent);
    CUcontext before = NULL;
    if (!set || !real_current_context(&before) || set(context) != CUDA_SUCCESS)
        return -1;
    int device = current_device();
    set(before);
    return device;
}

static void note_access(int accessing, int owner) {
    if (accessing >= 0 && owner >= 0)
        peer_access_enabled((unsigned)accessing, (unsigned)owner);
}

CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned f) {
    real_cuCtxEnablePeerAccess_t real = REAL(cuCtxEnablePeerAccess);
    hook_enter(ID_cuCtxEnablePeerAccess);
    CUresult result = real ? real(c, f) : MISSING_CUDA;
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        note_access(current_device(), device_of(c));
    hook_leave();
    return result;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned f) {
    real_cudaDeviceEnablePeerAccess_t real = RUNTIME(cudaDeviceEnablePeerAccess);
    hook_enter(ID_cudaDeviceEnablePeerAccess);
    cudaError_t result = real ? real(peer, f) : MISSING_CUDART;
    if (result == cudaSuccess || result == cudaErrorPeerAccessAlreadyEnabled)
        note_access(current_device(), peer);
    hook_leave();
    return result;
}

/* PyTorch copies between devices this way, knowing that its memory is from cudaMalloc. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t s) {
    real_cudaMemcpyAsync_t real = RUNTIME(cudaMemcpyAsync);
    real_cudaMemcpyPeerAsync_t between = NULL;
    int to_device = 0, from_device = 0;
    if (hook_enter(ID_cudaMemcpyAsync) && n > 0 &&
        (kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault) &&
        sharing_between_devices((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, &to_device,
                                &from_device))
        between = RUNTIME(cudaMemcpyPeerAsync);
    cudaError_t result = between ? between(to, to_device, from, from_device, n, s)
                         : real  ? real(to, from, n, kind, s)
                                 : MISSING_CUDART;
    hook_leave();
    return result;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr p) {
    real_cuIpcGetMemHandle_t real = REAL(cuIpcGetMemHandle);
    hook_enter(ID_cuIpcGetMemHandle);
    CUresult result = real ? real(h, p) : MISSING_CUDA;
    if (result != CUDA_SUCCESS)
        sharing_ipc_failed(p);
    hook_leave();
    return result;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *h, void *p) {
    real_cudaIpcGetMemHandle_t real = RUNTIME(cudaIpcGetMemHandle);
    hook_enter(ID_cudaIpcGetMemHandle);
    cudaError_t result = real ? real(h, p) : MISSING_CUDART;
    if (result != cudaSuccess)
        sharing_ipc_failed((uint64_t)(uintptr_t)p);
    hook_leave();
    return result;
}
