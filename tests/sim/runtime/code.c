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

/* --- device variables. The driver cannot know their sizes (it does not read the code), so they get
 * memory of their own when they are first asked for; on a card they lie in the loaded module --- */

static cudaError_t place_variable(struct host_symbol *variable) {
    CUresult result = cu.cuMemAlloc(&variable->address, variable->size);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemsetD8(variable->address, 0, variable->size);
    return rt_result(result);
}

static cudaError_t find_variable(const void *symbol, void **address, size_t *size) {
    RT_ENTER();
    cudaError_t error = cudaSuccess;
    registry_lock();
    struct host_symbol *variable = registry_find(symbol);
    if (!variable || variable->size == 0)
        error = rt_fail(cudaErrorInvalidSymbol);
    else if (!variable->address)
        error = place_variable(variable);
    if (error == cudaSuccess) {
        *address = (void *)(uintptr_t)variable->address;
        *size = variable->size;
    }
    registry_unlock();
    return error;
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    size_t size = 0;
    return find_variable(symbol, address, &size);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol) {
    void *address = NULL;
    return find_variable(symbol, &address, size);
}

/* The address of a part of a variable; parts outside of it are refused. */
static cudaError_t variable_part(const void *symbol, size_t offset, size_t count, char **part) {
    void *address = NULL;
    size_t size = 0;
    cudaError_t error = find_variable(symbol, &address, &size);
    if (error != cudaSuccess)
        return error;
    if (offset > size || count > size - offset)
        return rt_fail(cudaErrorInvalidValue);
    *part = (char *)address + offset;
    return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *source, size_t count, size_t offset,
                               enum cudaMemcpyKind kind) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy(part, source, count, kind) : error;
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *source, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync(part, source, count, kind, stream) : error;
}

cudaError_t cudaMemcpyFromSymbol(void *destination, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy(destination, part, count, kind) : error;
}

cudaError_t cudaMemcpyFromSymbolAsync(void *destination, const void *symbol, size_t count,
                                      size_t offset, enum cudaMemcpyKind kind,
                                      cudaStream_t stream) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync(destination, part, count, kind, stream) : error;
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
