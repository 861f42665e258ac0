/* driver_pool.c: wrappers of the calls on memory pools. The driver answers; where the default pool
 * is served by ours (mode compact, VRAMGC_ASYNC=pages), ours is added. The runtime's calls on pools
 * come here too. */
#include "hook/hook.h"
#include "serve/async.h"
#include "track/oom.h"

CUresult cuMemPoolDestroy(CUmemoryPool q) {
    real_cuMemPoolDestroy_t real = REAL(cuMemPoolDestroy);
    hook_enter(ID_cuMemPoolDestroy);
    CUresult result = real ? real(q) : MISSING_CUDA; /* what was allocated stays until freed */
    hook_leave();
    return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool q, CUmemPool_attribute a, void *v) {
    real_cuMemPoolGetAttribute_t real = REAL(cuMemPoolGetAttribute);
    hook_enter(ID_cuMemPoolGetAttribute);
    CUresult result = real ? real(q, a, v) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        async_pool_get_attribute(q, a, v);
    hook_leave();
    return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool q, CUmemPool_attribute a, void *v) {
    real_cuMemPoolSetAttribute_t real = REAL(cuMemPoolSetAttribute);
    hook_enter(ID_cuMemPoolSetAttribute);
    CUresult result = real ? real(q, a, v) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        async_pool_set_attribute(q, a);
    hook_leave();
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool q, size_t keep) {
    real_cuMemPoolTrimTo_t real = REAL(cuMemPoolTrimTo);
    hook_enter(ID_cuMemPoolTrimTo);
    CUresult result = real ? real(q, keep) : MISSING_CUDA;
    if (result == CUDA_SUCCESS) {
        oom_pool_trimmed();
        async_pool_trim(q);
    }
    hook_leave();
    return result;
}

CUresult cuMemPoolSetAccess(CUmemoryPool q, const CUmemAccessDesc *d, size_t count) {
    real_cuMemPoolSetAccess_t real = REAL(cuMemPoolSetAccess);
    hook_enter(ID_cuMemPoolSetAccess);
    CUresult result = real ? real(q, d, count) : MISSING_CUDA;
    if (result == CUDA_SUCCESS && !async_pool_set_access(q, d, count))
        result = CUDA_ERROR_NOT_SUPPORTED;
    hook_leave();
    return result;
}
