/* What programs ask about device code: function attributes, occupancy, device variables, and
 * libraries loaded at run time. */
#include "registry.h"

#include <string.h>

static int function_attribute(CUfunction function, CUfunction_attribute attribute) {
    int value = 0;
    cu.cuFuncGetAttribute(&value, attribute, function);
    return value;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *symbol) {
    CUfunction function = NULL;
    cudaError_t error = rt_function_of(symbol, &function);
    if (error != cudaSuccess)
        return error;
    memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes =
        (size_t)function_attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    attributes->constSizeBytes =
        (size_t)function_attribute(function, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
    attributes->localSizeBytes =
        (size_t)function_attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    attributes->maxThreadsPerBlock =
        function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    attributes->numRegs = function_attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
    attributes->ptxVersion = function_attribute(function, CU_FUNC_ATTRIBUTE_PTX_VERSION);
    attributes->binaryVersion = function_attribute(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    attributes->maxDynamicSharedSizeBytes =
        function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    attributes->preferredShmemCarveout =
        function_attribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    return cudaSuccess;
}

/* Driver and runtime number these attributes alike. */
cudaError_t cudaFuncSetAttribute(const void *symbol, enum cudaFuncAttribute attribute, int value) {
    CUfunction function = NULL;
    cudaError_t error = rt_function_of(symbol, &function);
    if (error != cudaSuccess)
        return error;
    return rt_result(cu.cuFuncSetAttribute(function, (CUfunction_attribute)attribute, value));
}

cudaError_t cudaFuncSetCacheConfig(const void *symbol, enum cudaFuncCache config) {
    CUfunction function = NULL;
    cudaError_t error = rt_function_of(symbol, &function);
    if (error != cudaSuccess)
        return error;
    return rt_result(cu.cuFuncSetCacheConfig(function, (CUfunc_cache)config));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *symbol,
                                                                   int block_size,
                                                                   size_t shared_bytes,
                                                                   unsigned int flags) {
    CUfunction function = NULL;
    cudaError_t error = rt_function_of(symbol, &function);
    if (error != cudaSuccess)
        return error;
    return rt_result(cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, function, block_size, shared_bytes, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *symbol,
                                                          int block_size, size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, symbol, block_size,
                                                                  shared_bytes, 0);
}

/* --- libraries loaded at run time; the types are the driver's own under other names --- */
#if CUDART_VERSION >= 12080

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned int jit_count, enum cudaLibraryOption *options,
                                void **values, unsigned int count) {
    RT_CALL(cu.cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jit_options,
                                 jit_values, jit_count, (CUlibraryOption *)options, values, count));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path,
                                    enum cudaJitOption *jit_options, void **jit_values,
                                    unsigned int jit_count, enum cudaLibraryOption *options,
                                    void **values, unsigned int count) {
    RT_CALL(cu.cuLibraryLoadFromFile((CUlibrary *)library, path, (CUjit_option *)jit_options,
                                     jit_values, jit_count, (CUlibraryOption *)options, values,
                                     count));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    RT_CALL(cu.cuLibraryUnload((CUlibrary)library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    RT_ENTER();
    cudaError_t error =
        rt_result(cu.cuLibraryGetKernel((CUkernel *)kernel, (CUlibrary)library, name));
    return error == cudaSuccess ? rt_remember_kernel((CUkernel)*kernel) : error;
}

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t library) {
    RT_CALL(cu.cuLibraryGetKernelCount(count, (CUlibrary)library));
}

cudaError_t cudaLibraryGetGlobal(void **pointer, size_t *size, cudaLibrary_t library,
                                 const char *name) {
    RT_CALL(cu.cuLibraryGetGlobal((CUdeviceptr *)pointer, size, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetManaged(void **pointer, size_t *size, cudaLibrary_t library,
                                  const char *name) {
    RT_CALL(cu.cuLibraryGetManaged((CUdeviceptr *)pointer, size, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library,
                                          const char *name) {
    RT_CALL(cu.cuLibraryGetUnifiedFunction(function, (CUlibrary)library, name));
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute,
                                            int value, int device) {
    RT_CALL(
        cu.cuKernelSetAttribute((CUfunction_attribute)attribute, value, (CUkernel)kernel, device));
}
#endif
