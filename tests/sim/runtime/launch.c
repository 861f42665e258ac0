/* Device code as nvcc-compiled objects register it, and launches of its kernels. Kernels do nothing
 * on the simulated device, but a launch is work in its stream, and a wrong function or
 * configuration is refused as the vendor's runtime does. */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

/* --- registration: called by constructors that nvcc generates, before main; the signatures are
 * those of crt/host_runtime.h --- */

void **__cudaRegisterFatBinary(void *image) {
    struct fat_binary *binary = calloc(1, sizeof *binary);
    if (!binary)
        abort();
    binary->image = image;
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle) {
    struct fat_binary *binary = (struct fat_binary *)handle;
    if (!binary)
        return;
    registry_lock();
    binary->unregistered = true;
    variables_free(binary);
    if (binary->library)
        cu.cuLibraryUnload(binary->library);
    binary->library = NULL;
    registry_unlock();
}

char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}

static void add_or_abort(struct host_symbol symbol) {
    registry_lock();
    bool added = registry_add(symbol);
    registry_unlock();
    if (!added)
        abort();
}

void __cudaRegisterFunction(void **handle, const char *host, char *device_function,
                            const char *device_name, int thread_limit, void *thread_id,
                            void *block_id, void *block_dim, void *grid_dim, int *warp_size) {
    (void)device_function, (void)thread_limit, (void)thread_id, (void)block_id;
    (void)block_dim, (void)grid_dim, (void)warp_size;
    add_or_abort((struct host_symbol){
        .host = host, .name = device_name, .binary = (struct fat_binary *)handle});
}

void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *device_name,
                       int external, size_t size, int constant, int global) {
    (void)device_address, (void)external, (void)constant, (void)global;
    add_or_abort((struct host_symbol){
        .host = host, .name = device_name, .binary = (struct fat_binary *)handle, .size = size});
}

/* --- kernels --- */

/* Loads the object that a kernel is in and finds the kernel in it; the lock is held. */
static CUresult resolve_kernel(struct host_symbol *symbol) {
    CUresult result = CUDA_SUCCESS;
    struct fat_binary *binary = symbol->binary;
    if (!binary->library)
        result =
            cu.cuLibraryLoadData(&binary->library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
    if (result == CUDA_SUCCESS)
        result = cu.cuLibraryGetKernel(&symbol->kernel, binary->library, symbol->name);
    return result;
}

static cudaError_t kernel_of(const void *host, CUkernel *kernel) {
    CUresult result = CUDA_SUCCESS;
    registry_lock();
    struct host_symbol *symbol = registry_find(host);
    bool is_kernel = symbol && symbol->size == 0;
    if (is_kernel && !symbol->kernel)
        result = resolve_kernel(symbol);
    if (is_kernel)
        *kernel = symbol->kernel;
    registry_unlock();
    return is_kernel ? rt_result(result) : rt_fail(cudaErrorInvalidDeviceFunction);
}

cudaError_t rt_function_of(const void *symbol, CUfunction *function) {
    CUkernel kernel = NULL;
    RT_ENTER();
    cudaError_t error = kernel_of(symbol, &kernel);
    if (error != cudaSuccess)
        return error;
    return rt_result(cu.cuKernelGetFunction(function, kernel));
}

cudaError_t rt_remember_kernel(CUkernel kernel) {
    registry_lock();
    bool known = registry_find(kernel) != NULL ||
                 registry_add((struct host_symbol){.host = kernel, .kernel = kernel});
    registry_unlock();
    return known ? cudaSuccess : rt_fail(cudaErrorMemoryAllocation);
}

/* The limits on threads in a block and on every dimension are checked before the driver is asked.
 */
static cudaError_t check_configuration(dim3 grid, dim3 block) {
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > 1024)
        return rt_fail(cudaErrorInvalidConfiguration);
    if (grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535)
        return rt_fail(cudaErrorInvalidConfiguration);
    return cudaSuccess;
}

/* What every launch begins with. */
static cudaError_t prepare(const void *symbol, dim3 grid, dim3 block, CUfunction *function) {
    cudaError_t error = rt_function_of(symbol, function);
    return error == cudaSuccess ? check_configuration(grid, block) : error;
}

cudaError_t cudaLaunchKernel(const void *symbol, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream) {
    CUfunction function = NULL;
    cudaError_t error = prepare(symbol, grid, block, &function);
    if (error != cudaSuccess)
        return error;
    return rt_result(cu.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                       (unsigned)shared_bytes, stream, arguments, NULL));
}

cudaError_t cudaLaunchCooperativeKernel(const void *symbol, dim3 grid, dim3 block, void **arguments,
                                        size_t shared_bytes, cudaStream_t stream) {
    CUfunction function = NULL;
    cudaError_t error = prepare(symbol, grid, block, &function);
    if (error != cudaSuccess)
        return error;
    return rt_result(cu.cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x,
                                                  block.y, block.z, (unsigned)shared_bytes, stream,
                                                  arguments));
}

#if CUDART_VERSION >= 11080
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *symbol,
                                void **arguments) {
    if (!config)
        return rt_fail(cudaErrorInvalidValue);
    CUfunction function = NULL;
    cudaError_t error = prepare(symbol, config->gridDim, config->blockDim, &function);
    if (error != cudaSuccess)
        return error;
    /* The attributes of driver and runtime have one layout. */
    CUlaunchConfig driver_config = {.gridDimX = config->gridDim.x,
                                    .gridDimY = config->gridDim.y,
                                    .gridDimZ = config->gridDim.z,
                                    .blockDimX = config->blockDim.x,
                                    .blockDimY = config->blockDim.y,
                                    .blockDimZ = config->blockDim.z,
                                    .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                                    .hStream = config->stream,
                                    .attrs = (CUlaunchAttribute *)config->attrs,
                                    .numAttrs = config->numAttrs};
    return rt_result(cu.cuLaunchKernelEx(&driver_config, function, arguments, NULL));
}
#endif

/* nvcc's stubs for kernel<<<...>>> leave the configuration here between two generated calls. */
static __thread struct {
    struct {
        dim3 grid;
        dim3 block;
        size_t shared_bytes;
        cudaStream_t stream;
    } stack[16];
    unsigned depth;
} pending;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
    if (pending.depth == sizeof pending.stack / sizeof *pending.stack)
        return 1;
    pending.stack[pending.depth].grid = grid;
    pending.stack[pending.depth].block = block;
    pending.stack[pending.depth].shared_bytes = shared_bytes;
    pending.stack[pending.depth].stream = stream;
    pending.depth++;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
                                       void *stream) {
    if (pending.depth == 0)
        return rt_fail(cudaErrorMissingConfiguration);
    pending.depth--;
    *grid = pending.stack[pending.depth].grid;
    *block = pending.stack[pending.depth].block;
    *shared_bytes = pending.stack[pending.depth].shared_bytes;
    *(cudaStream_t *)stream = pending.stack[pending.depth].stream;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
    RT_ENTER();
    cudaError_t error = kernel_of(host, (CUkernel *)kernel);
    return error == cudaSuccess ? rt_remember_kernel((CUkernel)*kernel) : error;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared_bytes, cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared_bytes, stream);
}
#endif
