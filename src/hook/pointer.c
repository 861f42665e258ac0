/* pointer.c: wrappers of the questions about addresses, and of what lets others hold on to memory.
 * For addresses of paged segments they answer as for memory of cudaMalloc, whatever lies behind
 * them just now; for all others, and for what cannot be promised (other processes), the driver's
 * own answer stands. */
#include "hook/hook.h"
#include "serve/sharing.h"

#define GIVE(type, value)                                                                          \
    do {                                                                                           \
        *(type *)data = (type)(value);                                                             \
        return CUDA_SUCCESS;                                                                       \
    } while (0)

/* result: the driver's answer, which stands where a page has one of its own. */
static CUresult answer_attribute(void *data, CUpointer_attribute a, CUdeviceptr p,
                                 const struct address_info *place, CUresult result) {
    if (place->mapped && a != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
        a != CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        return result; /* a page is memory of the same kind */
    switch (a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        GIVE(CUcontext, (uintptr_t)place->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        GIVE(unsigned, CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        GIVE(CUdeviceptr, p);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = NULL;
        return CUDA_ERROR_INVALID_VALUE; /* as for all device memory */
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        GIVE(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        GIVE(int, place->device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        GIVE(CUdeviceptr, place->address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        GIVE(size_t, place->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        GIVE(unsigned, 1);
    default:
        return result;
    }
}

/* Peer-to-peer tokens are asked for by who is about to use the memory from outside. */
static void before_question(CUpointer_attribute a, const struct address_info *place) {
    if (a == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        address_pin(place->address, place->bytes);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr p) {
    real_cuPointerGetAttribute_t real = REAL(cuPointerGetAttribute);
    struct address_info place;
    hook_enter(ID_cuPointerGetAttribute);
    bool paged = address_lookup(p, &place);
    if (paged)
        before_question(a, &place);
    CUresult result = real ? real(data, a, p) : MISSING_CUDA;
    if (paged && data)
        result = answer_attribute(data, a, p, &place, result);
    hook_leave();
    return result;
}

CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *a, void **data, CUdeviceptr p) {
    real_cuPointerGetAttributes_t real = REAL(cuPointerGetAttributes);
    struct address_info place;
    hook_enter(ID_cuPointerGetAttributes);
    bool paged = address_lookup(p, &place);
    for (unsigned i = 0; paged && a && i < n; i++)
        before_question(a[i], &place);
    CUresult result = real ? real(n, a, data, p) : MISSING_CUDA;
    for (unsigned i = 0; paged && result == CUDA_SUCCESS && i < n; i++)
        answer_attribute(data[i], a[i], p, &place, CUDA_SUCCESS);
    hook_leave();
    return result;
}

/* The driver's answer is for one page: every page of the segment is asked to. */
static CUresult set_for_all(real_cuPointerSetAttribute_t real, const void *v, CUpointer_attribute a,
                            const struct address_info *place) {
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < place->bytes && result == CUDA_SUCCESS; i += PAGE_BYTES)
        result = real(v, a, place->address + i);
    return result;
}

/* Set by who registers memory with a network card: it must stay where it is. */
CUresult cuPointerSetAttribute(const void *v, CUpointer_attribute a, CUdeviceptr p) {
    real_cuPointerSetAttribute_t real = REAL(cuPointerSetAttribute);
    struct address_info place;
    hook_enter(ID_cuPointerSetAttribute);
    CUresult result = MISSING_CUDA;
    if (!address_lookup(p, &place))
        result = real ? real(v, a, p) : MISSING_CUDA;
    else if (!address_pin(place.address, place.bytes))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (real)
        result = set_for_all(real, v, a, &place);
    hook_leave();
    return result;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n, CUdeviceptr p) {
    real_cuMemGetAddressRange_v2_t real = REAL(cuMemGetAddressRange_v2);
    struct address_info place;
    hook_enter(ID_cuMemGetAddressRange_v2);
    CUresult result = real ? real(base, n, p) : MISSING_CUDA;
    if ((result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND) && address_lookup(p, &place)) {
        if (base)
            *base = place.address;
        if (n)
            *n = place.bytes;
        result = CUDA_SUCCESS;
    }
    hook_leave();
    return result;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr p, size_t n,
                                       CUmemRangeHandleType t, unsigned long long f) {
    real_cuMemGetHandleForAddressRange_t real = REAL(cuMemGetHandleForAddressRange);
    hook_enter(ID_cuMemGetHandleForAddressRange);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (address_pin(p, n))
        result = real ? real(handle, p, n, t, f) : MISSING_CUDA;
    hook_leave();
    return result;
}

/* The vendor's runtime need not come by way of the wrappers above. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
    real_cudaPointerGetAttributes_t real = RUNTIME(cudaPointerGetAttributes);
    struct address_info place;
    hook_enter(ID_cudaPointerGetAttributes);
    cudaError_t result = real ? real(a, p) : MISSING_CUDART;
    if (result == cudaSuccess && address_lookup((uint64_t)(uintptr_t)p, &place) && !place.mapped) {
        a->type = cudaMemoryTypeDevice;
        a->device = (int)place.device;
        a->devicePointer = (void *)(uintptr_t)p;
        a->hostPointer = NULL;
    }
    hook_leave();
    return result;
}

/* --- other devices and processes: pages of the engine are mapped memory, which peer access alone
 * does not open, which a plain copy from another device does not reach, and which the older way of
 * sharing between processes refuses --- */

static int current_device(void) {
    real_cuCtxGetDevice_t get = REAL(cuCtxGetDevice);
    CUdevice device = -1;
    return get && get(&device) == CUDA_SUCCESS ? device : -1;
}

static int device_of_context(CUcontext context) {
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

#define ENABLE_PEER(api, symbol, enabled_before, accessing, owner, ...)                            \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    hook_enter(ID_##symbol);                                                                       \
    RESULT_##api result = real ? real(__VA_ARGS__) : MISSING_##api;                                \
    if ((int)result == CUDA_SUCCESS || result == (enabled_before))                                 \
        note_access(accessing, owner);                                                             \
    hook_leave();                                                                                  \
    return result

WRAP(ENABLE_PEER, CUDA, cuCtxEnablePeerAccess, (CUcontext c, unsigned f),
     CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, current_device(), device_of_context(c), c, f)
WRAP(ENABLE_PEER, CUDART, cudaDeviceEnablePeerAccess, (int peer, unsigned f),
     cudaErrorPeerAccessAlreadyEnabled, current_device(), peer, peer, f)

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

#define SHARE(api, symbol)                                                                         \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    hook_enter(ID_##symbol);                                                                       \
    RESULT_##api result = real ? real(h, p) : MISSING_##api;                                       \
    if ((int)result != CUDA_SUCCESS)                                                               \
        sharing_ipc_failed((uint64_t)p);                                                           \
    hook_leave();                                                                                  \
    return result

WRAP(SHARE, CUDA, cuIpcGetMemHandle, (CUipcMemHandle * h, CUdeviceptr p))
WRAP(SHARE, CUDART, cudaIpcGetMemHandle, (cudaIpcMemHandle_t * h, void *p))
