/* Questions to a context, its limits and settings, and waiting for all of its work. */
#include "capture.h"
#include "memory.h"

/* The context that a call means: the one given, or the current one. */
static struct context *chosen(CUcontext handle) {
    struct context *context = handle != NULL ? context_of(handle) : context_current();
    return context != NULL && context->alive ? context : NULL;
}

static CUresult synchronise(struct context *context) {
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->sticky != CUDA_SUCCESS)
        return context->sticky;
    CUresult result = capture_forbids_wait(context);
    return result == CUDA_SUCCESS ? queue_wait_context(context) : result;
}

CUresult cuCtxSynchronize(void) {
    BEGIN(NEED_CONTEXT);
    END(synchronise(context_current()));
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
    BEGIN(NEED_INIT);
    END(synchronise(chosen(handle)));
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle) {
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct context *context = chosen(handle);
    if (context == NULL)
        END(CUDA_ERROR_INVALID_CONTEXT);
    *device = context->device->ordinal;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct context *context = chosen(handle);
    if (context == NULL)
        END(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    *id = context->id;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *version) {
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    if (chosen(handle) == NULL)
        END(CUDA_ERROR_INVALID_CONTEXT);
    *version = 3020;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetFlags(unsigned *flags) {
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    *flags = context_current()->flags;
    END(CUDA_SUCCESS);
}

CUresult cuCtxSetFlags(unsigned flags) {
    BEGIN(NEED_CONTEXT);
    context_current()->flags = flags;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    BEGIN(NEED_CONTEXT);
    *value = context_current()->limits[limit];
    END(CUDA_SUCCESS);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    BEGIN(NEED_CONTEXT);
    context_current()->limits[limit] = value;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    *config = context_current()->cache_config;
    END(CUDA_SUCCESS);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    BEGIN(NEED_CONTEXT);
    context_current()->cache_config = config;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config) {
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    *config = context_current()->shared_config;
    END(CUDA_SUCCESS);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    BEGIN(NEED_CONTEXT);
    context_current()->shared_config = config;
    END(CUDA_SUCCESS);
}

CUresult cuCtxResetPersistingL2Cache(void) {
    BEGIN(NEED_CONTEXT);
    END(CUDA_SUCCESS);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct context *context = context_current();
    struct context *other = context_of(peer);
    if (other == NULL || other->device == context->device)
        END(CUDA_ERROR_INVALID_CONTEXT);
    if (!devices_are_peers(context->device->ordinal, other->device->ordinal))
        END(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    unsigned bit = 1u << other->device->ordinal;
    if (context->peers & bit)
        END(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= bit;
    END(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    BEGIN(NEED_CONTEXT);
    struct context *other = context_of(peer);
    if (other == NULL)
        END(CUDA_ERROR_INVALID_CONTEXT);
    unsigned bit = 1u << other->device->ordinal;
    if (!(context_current()->peers & bit))
        END(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    context_current()->peers &= ~bit;
    END(CUDA_SUCCESS);
}
