/* cudaGetDriverEntryPoint in the form of each major: the road by which PyTorch 2.8 and newer reach
 * the driver. */
#include "runtime.h"

/* A caller that can be told by a status gets success and a null pointer for an unknown name; one
 * that cannot, an error. */
static cudaError_t entry_point(const char *symbol, void **function, unsigned int version,
                               unsigned long long flags, int *status) {
    RT_LOAD();
    if (!symbol || !function)
        return rt_fail(cudaErrorInvalidValue);
    CUdriverProcAddressQueryResult query = CU_GET_PROC_ADDRESS_SUCCESS;
    *function = NULL;
    CUresult result =
        rt_get_proc_address(symbol, function, (int)version, flags, status ? &query : NULL);
    if (status) {
        *status = (int)query;
        if (result == CUDA_ERROR_NOT_FOUND)
            result = CUDA_SUCCESS;
    }
    return rt_result(result);
}

#if CUDART_VERSION < 12000
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags) {
    return entry_point(symbol, function, CUDART_VERSION, flags, NULL);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
    return entry_point(symbol, function, CUDART_VERSION, flags, (int *)status);
}
#endif

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    return entry_point(symbol, function, version, flags, (int *)status);
}
#endif
