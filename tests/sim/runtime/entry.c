/* cudaGetDriverEntryPoint in the form of each major: the road by which PyTorch 2.8 and newer reach
 * the driver. */
#include "runtime.h"

/* An unknown name is no error here: the pointer is null then and the status says why. */
static cudaError_t entry_point(const char *symbol, void **function, unsigned int version,
                               unsigned long long flags, int *status) {
    RT_LOAD();
    if (!symbol || !function)
        return rt_fail(cudaErrorInvalidValue);
    CUdriverProcAddressQueryResult query = CU_GET_PROC_ADDRESS_SUCCESS;
    *function = NULL;
    CUresult result = rt_get_proc_address(symbol, function, (int)version, flags, &query);
    if (status)
        *status = (int)query;
    return rt_result(result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result);
}

#if CUDART_VERSION < 12000
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags) {
    cudaError_t error = entry_point(symbol, function, CUDART_VERSION, flags, NULL);
    if (error == cudaSuccess && !*function)
        return rt_fail(cudaErrorSymbolNotFound);
    return error;
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
