/* Devices: versions, properties, limits, peers. Everything is asked of the driver; nothing about
 * the device is decided here. */
#include "runtime.h"

#include <string.h>

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version)
        return rt_fail(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* Without a driver the answer is 0 and no error, as documented. */
cudaError_t cudaDriverGetVersion(int *version) {
    if (!version)
        return rt_fail(cudaErrorInvalidValue);
    *version = 0;
    if (rt_load() == cudaErrorInsufficientDriver)
        return cudaSuccess;
    return rt_result(cu.cuDriverGetVersion(version));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    RT_LOAD();
    return rt_result(cu.cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

static int attribute_of(int device, CUdevice_attribute attribute) {
    int value = 0;
    cu.cuDeviceGetAttribute(&value, attribute, device);
    return value;
}

/* Which driver attribute fills which member of cudaDeviceProp. */
struct property {
    size_t offset;
    CUdevice_attribute attribute;
};
#define PROPERTY(member, attribute)                                                                \
    { offsetof(struct cudaDeviceProp, member), CU_DEVICE_ATTRIBUTE_##attribute }

static const struct property int_properties[] = {
    PROPERTY(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    PROPERTY(warpSize, WARP_SIZE),
    PROPERTY(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    PROPERTY(maxThreadsDim[0], MAX_BLOCK_DIM_X),
    PROPERTY(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
    PROPERTY(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
    PROPERTY(maxGridSize[0], MAX_GRID_DIM_X),
    PROPERTY(maxGridSize[1], MAX_GRID_DIM_Y),
    PROPERTY(maxGridSize[2], MAX_GRID_DIM_Z),
    PROPERTY(major, COMPUTE_CAPABILITY_MAJOR),
    PROPERTY(minor, COMPUTE_CAPABILITY_MINOR),
    PROPERTY(multiProcessorCount, MULTIPROCESSOR_COUNT),
    PROPERTY(integrated, INTEGRATED),
    PROPERTY(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    PROPERTY(concurrentKernels, CONCURRENT_KERNELS),
    PROPERTY(ECCEnabled, ECC_ENABLED),
    PROPERTY(pciBusID, PCI_BUS_ID),
    PROPERTY(pciDeviceID, PCI_DEVICE_ID),
    PROPERTY(pciDomainID, PCI_DOMAIN_ID),
    PROPERTY(asyncEngineCount, ASYNC_ENGINE_COUNT),
    PROPERTY(unifiedAddressing, UNIFIED_ADDRESSING),
    PROPERTY(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    PROPERTY(l2CacheSize, L2_CACHE_SIZE),
    PROPERTY(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    PROPERTY(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    PROPERTY(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
    PROPERTY(managedMemory, MANAGED_MEMORY),
    PROPERTY(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    PROPERTY(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
    PROPERTY(cooperativeLaunch, COOPERATIVE_LAUNCH),
    PROPERTY(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
#if CUDART_VERSION < 13000
    PROPERTY(clockRate, CLOCK_RATE),
    PROPERTY(memoryClockRate, MEMORY_CLOCK_RATE),
    PROPERTY(computeMode, COMPUTE_MODE),
    PROPERTY(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT),
#else
    PROPERTY(hostNumaId, HOST_NUMA_ID),
#endif
#if CUDART_VERSION >= 12000
    PROPERTY(clusterLaunch, CLUSTER_LAUNCH),
    PROPERTY(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    PROPERTY(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
#endif
};

static const struct property size_properties[] = {
    PROPERTY(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
    PROPERTY(memPitch, MAX_PITCH),
    PROPERTY(totalConstMem, TOTAL_CONSTANT_MEMORY),
    PROPERTY(textureAlignment, TEXTURE_ALIGNMENT),
    PROPERTY(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
    PROPERTY(surfaceAlignment, SURFACE_ALIGNMENT),
    PROPERTY(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    PROPERTY(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    PROPERTY(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
};

static void fill_properties(struct cudaDeviceProp *properties, int device) {
    char *base = (char *)properties;
    for (size_t i = 0; i < sizeof int_properties / sizeof *int_properties; i++) {
        int value = attribute_of(device, int_properties[i].attribute);
        memcpy(base + int_properties[i].offset, &value, sizeof value);
    }
    for (size_t i = 0; i < sizeof size_properties / sizeof *size_properties; i++) {
        size_t value = (size_t)attribute_of(device, size_properties[i].attribute);
        memcpy(base + size_properties[i].offset, &value, sizeof value);
    }
}

static cudaError_t get_properties(struct cudaDeviceProp *properties, int device) {
    RT_LOAD();
    if (!properties)
        return rt_fail(cudaErrorInvalidValue);
    if (device < 0 || device >= rt_device_count())
        return rt_fail(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    cu.cuDeviceGetName(properties->name, sizeof properties->name, device);
    cu.cuDeviceGetUuid((CUuuid *)&properties->uuid, device);
    fill_properties(properties, device);
    return rt_result(cu.cuDeviceTotalMem(&properties->totalGlobalMem, device));
}

/* CUDA 12 gave its own layout a new name and kept the old one for programs built before. */
#if CUDART_VERSION >= 12000 && CUDART_VERSION < 13000
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *properties, int device) {
    return get_properties(properties, device);
}
#else
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    return get_properties(properties, device);
}
#endif

cudaError_t cudaDeviceGetPCIBusId(char *name, int length, int device) {
    RT_LOAD();
    return rt_result(cu.cuDeviceGetPCIBusId(name, length, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *name) {
    RT_LOAD();
    return rt_result(cu.cuDeviceGetByPCIBusId(device, name));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    RT_LOAD();
    return rt_result(cu.cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int source,
                                      int destination) {
    RT_LOAD();
    return rt_result(
        cu.cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, source, destination));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    RT_ENTER();
    CUcontext context = NULL;
    cudaError_t error = rt_primary_context(peer, &context);
    return error != cudaSuccess ? error : rt_result(cu.cuCtxEnablePeerAccess(context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    RT_ENTER();
    CUcontext context = NULL;
    cudaError_t error = rt_primary_context(peer, &context);
    return error != cudaSuccess ? error : rt_result(cu.cuCtxDisablePeerAccess(context));
}

cudaError_t cudaDeviceSynchronize(void) {
    RT_CALL(cu.cuCtxSynchronize());
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    RT_CALL(cu.cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    RT_CALL(cu.cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    RT_CALL(cu.cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    return rt_result(cu.cuDevicePrimaryCtxSetFlags(device, flags & ~(unsigned)cudaDeviceMapHost));
}

/* cudaDeviceMapHost is always reported, as documented. */
cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
    int device = 0;
    int active = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    error = rt_result(cu.cuDevicePrimaryCtxGetState(device, flags, &active));
    if (error == cudaSuccess)
        *flags |= cudaDeviceMapHost;
    return error;
}

#if CUDART_VERSION >= 12000
cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
    RT_LOAD();
    if (device < 0 || device >= rt_device_count())
        return rt_fail(cudaErrorInvalidDevice);
    if (flags & cudaInitDeviceFlagsAreValid)
        cu.cuDevicePrimaryCtxSetFlags(device, device_flags & ~(unsigned)cudaDeviceMapHost);
    CUcontext context = NULL;
    return rt_primary_context(device, &context);
}
#endif

/* The simulated device has nothing to profile; both calls succeed on a real one without a profiler
 * too. */
cudaError_t cudaProfilerStart(void) {
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void) {
    return cudaSuccess;
}
