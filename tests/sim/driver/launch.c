/* Kernels as functions: their attributes, occupancy, and launches, which do nothing but take their
 * place in the stream. Arguments are not looked at: their sizes are not known here. */
#include "capture.h"
#include "code.h"
#include "memory.h"
#include "queue.h"

enum { MAX_THREADS = 1024, THREADS_PER_MULTIPROCESSOR = 2048, BLOCKS_PER_MULTIPROCESSOR = 32 };

static struct kernel *kernel_of(const void *handle) {
    struct kernel *kernel = handle_get((uintptr_t)handle, HANDLE_KERNEL);
    if (kernel == NULL)
        sim_fault("kernel %p does not exist", handle);
    return kernel;
}

/* ---- attributes ---- */

/* The architecture that a kernel was compiled for. A device runs the code of its own major version
 * that is newest without being newer than itself; PyTorch's wheels carry these. CUB refuses work
 * where it is told of one that is not among them. */
static int code_version(void) {
    static const int compiled[] = {50, 60, 70, 75, 80, 86, 90, 100, 120};
    const int device = sim.config.cc_major * 10 + sim.config.cc_minor;
    int best = device;
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        if (compiled[i] <= device && compiled[i] / 10 == sim.config.cc_major)
            best = compiled[i];
    return best;
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const void *handle) {
    if (value == NULL || (unsigned)attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct kernel *kernel = kernel_of(handle);
    if (kernel == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    const int version = code_version();
    const int values[CU_FUNC_ATTRIBUTE_MAX] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = MAX_THREADS,
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = 32,
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = version,
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = version,
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = kernel->max_dynamic_shared,
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1,
    };
    *value = values[attribute];
    END(CUDA_SUCCESS);
}

static CUresult set_attribute(CUfunction_attribute attribute, int value, const void *handle) {
    if ((unsigned)attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct kernel *kernel = kernel_of(handle);
    if (kernel == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        kernel->max_dynamic_shared = value;
    END(CUDA_SUCCESS);
}

/* For settings that change nothing here: only the handle is checked. */
static CUresult accept(const void *handle) {
    BEGIN(NEED_INIT);
    END(kernel_of(handle) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult get_name(const char **name, const void *handle) {
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct kernel *kernel = kernel_of(handle);
    if (kernel == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    *name = kernel->name;
    END(CUDA_SUCCESS);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    return get_attribute(value, attribute, function);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return set_attribute(attribute, value, function);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    (void)config;
    return accept(function);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
    (void)config;
    return accept(function);
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
    return get_name(name, function);
}

CUresult cuFuncLoad(CUfunction function) {
    return accept(function);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
    if (state == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return accept(function);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
    (void)device;
    return get_attribute(value, attribute, kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
    (void)device;
    return set_attribute(attribute, value, kernel);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
    (void)config;
    (void)device;
    return accept(kernel);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    return get_name(name, kernel);
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUfunction)kernel;
    return accept(kernel);
}

/* ---- launches ---- */

struct shape {
    unsigned grid[3], block[3], shared_bytes;
};

static bool shape_is_valid(const struct shape *shape) {
    unsigned long long threads =
        (unsigned long long)shape->block[0] * shape->block[1] * shape->block[2];
    return shape->grid[0] > 0 && shape->grid[1] > 0 && shape->grid[2] > 0 &&
           shape->grid[1] <= 65535 && shape->grid[2] <= 65535 && shape->block[2] <= 64 &&
           threads > 0 && threads <= MAX_THREADS && shape->shared_bytes <= 232448;
}

static CUresult launch(const void *handle, const struct shape *shape, CUstream stream_handle) {
    BEGIN(NEED_CONTEXT);
    struct kernel *kernel = kernel_of(handle);
    CUresult result =
        kernel != NULL ? code_load(kernel, context_current()) : CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS)
        END(result);
    kernel = kernel_of(handle); /* The lock may have been let go. */
    struct stream *stream = stream_of(stream_handle);
    if (stream == NULL)
        sim_fault("launch in stream %p, which does not exist", (void *)stream_handle);
    if (kernel == NULL || stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (!shape_is_valid(shape))
        END(CUDA_ERROR_INVALID_VALUE);
    struct op op = {.kind = OP_LAUNCH};
    result = queue_submit(stream, &op, cost_ns(COST_LAUNCH, 0));
    sim_log(2, "launch %.80s in stream %llu", kernel->name, stream->id);
    END(result);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra) {
    (void)parameters;
    (void)extra;
    struct shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    return launch(function, &shape, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                          config->blockDimX, config->blockDimY, config->blockDimZ,
                          config->sharedMemBytes, config->hStream, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void **parameters) {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                          stream, parameters, NULL);
}

/* ---- occupancy ---- */

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, CUfunction function,
                                                              int block_size, size_t shared_bytes,
                                                              unsigned flags) {
    (void)shared_bytes;
    if (count == NULL || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    int blocks = block_size > MAX_THREADS ? 0 : THREADS_PER_MULTIPROCESSOR / block_size;
    *count = blocks < BLOCKS_PER_MULTIPROCESSOR ? blocks : BLOCKS_PER_MULTIPROCESSOR;
    return accept(function);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function,
                                                     int block_size, size_t shared_bytes) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, block_size,
                                                                shared_bytes, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks,
                                                 int block_size) {
    if (bytes == NULL || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = (size_t)233472 / (size_t)blocks;
    return accept(function);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared,
                                                   int limit, unsigned flags) {
    (void)shared_of;
    (void)shared;
    (void)flags;
    if (grid == NULL || block == NULL || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *block = limit > 0 && limit < MAX_THREADS ? limit : MAX_THREADS;
    *grid = 132 * (THREADS_PER_MULTIPROCESSOR / MAX_THREADS);
    return accept(function);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared,
                                                     limit, 0);
}

CUresult cuProfilerStart(void) {
    BEGIN(NEED_CONTEXT);
    END(CUDA_SUCCESS);
}

CUresult cuProfilerStop(void) {
    BEGIN(NEED_CONTEXT);
    END(CUDA_SUCCESS);
}
