/* fragments_newer.h: a part of fragments_driver.c: calls that this device may be too old for, or
 * has not at all, those of old programs, and the end of a primary context. Where it has none the
 * wrapper is not reached either. */
#ifndef FRAGMENTS_NEWER_H
#define FRAGMENTS_NEWER_H

static void newer_bindings(CUmemGenericAllocationHandle made) {
    CALL_IF_THERE(cuLogicalEndpointBindMem, 0, 0, 0, made, 0, PAGE_BYTES, 0); /* CUDA 13.3 */
    CALL_IF_THERE(cuLogicalEndpointBindAddr, 0, 0, 0, NULL, PAGE_BYTES, 0);
    CUarrayMapInfo tile = {.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
                           .memHandle.memHandle = made};
    CALL_IF_THERE(cuMemMapArrayAsync, &tile, 1, NULL);
    CALL_IF_THERE(cuMemMapArrayAsync_ptsz, &tile, 1, NULL);
}

/* What they begin counts as a capture. */
static void newer_captures(void) {
    const struct vramgc_file *file = check_file();
    CUstream stream = NULL;
    OK(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    CALL_IF_THERE(cuStreamBeginRecaptureToGraph, stream, 0, NULL, NULL, NULL);
    CALL_IF_THERE(cuStreamBeginRecaptureToGraph_ptsz, stream, 0, NULL, NULL, NULL);
    CALL_IF_THERE(cuStreamBeginCaptureToCig_ptsz, stream, NULL);
    CALL_IF_THERE(cuStreamEndCaptureToCig_ptsz, stream);
    if (CALL(cuStreamBeginCaptureToCig) &&
        CALL(cuStreamBeginCaptureToCig)(stream, NULL) == CUDA_SUCCESS)
        CHECK(file && file->capturing == 1);
    CALL_IF_THERE(cuStreamEndCaptureToCig, stream);
    CHECK(file && file->capturing == 0);
    OK(CALL(cuStreamDestroy_v2)(stream));
}

static void streams(void) {
    CUstream stream = NULL;
    watch(0);
    OK(CALL(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, 0));
    OK(CALL(cuStreamDestroy)(stream));
    CALL(cuGreenCtxStreamCreate)(&stream, NULL, CU_STREAM_NON_BLOCKING, 0);
    UNCHANGED();
    newer_captures();
}

/* What a pool of host or managed memory has is not the device's. */
static void pool_with_host(const CUmemPoolProps *properties, size_t pinned, size_t managed) {
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    if (MORE(cuMemPoolCreate)(&pool, properties) != CUDA_SUCCESS)
        return; /* older than CUDA 13 */
    watch(0);
    OK(CALL(cuMemAllocFromPoolAsync)(&p, 3 * MIB, pool, NULL));
    EXPECT(.pinned = (int64_t)pinned, .managed = (int64_t)managed);
    OK(CALL(cuMemFreeAsync)(p, NULL));
    UNCHANGED();
    OK(CALL(cuMemPoolDestroy)(pool));
}

static void pools_with_host(void) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
    pool_with_host(&properties, 3 * MIB, 0);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
    pool_with_host(&properties, 0, 3 * MIB);
}

static void newer_unaccounted(void) {
    CALL_IF_THERE(cuMemPoolImportPointer, NULL, NULL, NULL);
    CALL_IF_THERE(cuGraphAddMemAllocNode, NULL, NULL, NULL, 0, NULL);
    CALL_IF_THERE(cuDeviceGraphMemTrim, 0);
    CALL_IF_THERE(cuGraphicsMapResources, 0, NULL, NULL);
    CALL_IF_THERE(cuGraphicsMapResources_ptsz, 0, NULL, NULL);
    CALL_IF_THERE(cuGraphicsGLRegisterBuffer, NULL, 0, 0);
    CALL_IF_THERE(cuGraphicsGLRegisterImage, NULL, 0, 0, 0);
    CALL_IF_THERE(cuGraphicsEGLRegisterImage, NULL, NULL, 0);
    CALL_IF_THERE(cuEGLStreamConsumerConnect, NULL, NULL);
    CALL_IF_THERE(cuEGLStreamConsumerConnectWithFlags, NULL, NULL, 0);
    CALL_IF_THERE(cuEGLStreamProducerConnect, NULL, NULL, 0, 0);
}

static CUresult begin_old(CUstream s, CUstreamCaptureMode m) {
    (void)m;
    return CALL(cuStreamBeginCapture)(s);
}

static CUresult begin_old_ptsz(CUstream s, CUstreamCaptureMode m) {
    (void)m;
    return CALL(cuStreamBeginCapture_ptsz)(s);
}

/* Of programs from before CUDA 3.2, with lengths of 32 bits; and what is not simulated. */
static void old_forms(void) {
    CALL_IF_THERE(cuMemAlloc, NULL, 0);
    CALL_IF_THERE(cuMemAllocPitch, NULL, NULL, 0, 0, 0);
    CALL_IF_THERE(cuMemAllocHost, NULL, 0);
    CALL_IF_THERE(cuArrayCreate, NULL, NULL);
    CALL_IF_THERE(cuArray3DCreate, NULL, NULL);
    CALL_IF_THERE(cuGraphAddNode, NULL, NULL, NULL, 0, NULL); /* entries.c */
    CALL_IF_THERE(cuGraphAddNode_v2, NULL, NULL, NULL, NULL, 0, NULL);
    CALL_IF_THERE(cuGraphAddNode_v3, NULL, NULL, NULL, NULL, 0, NULL);
}

/* The last release of the primary context ends everything in it; one before that nothing. */
static void release(CUresult (*release_one)(CUdevice)) {
    CUcontext primary = NULL;
    CUdeviceptr p = 0;
    watch(0);
    const struct vramgc_file *file = check_file();
    uint64_t resets = file ? file->devices[0].stats.resets : 0;
    OK(CALL(cuDevicePrimaryCtxRetain)(&primary, 0));
    OK(CALL(cuDevicePrimaryCtxRetain)(&primary, 0));
    OK(MORE(cuCtxSetCurrent)(primary));
    OK(CALL(cuMemAlloc_v2)(&p, 9 * MIB));
    OK(release_one(0));
    EXPECT(.held = 9 * MIB, .other = 9 * MIB);
    CHECK(file && file->devices[0].stats.resets == resets);
    OK(release_one(0));
    UNCHANGED();
    CHECK(file && file->devices[0].stats.resets == resets + 1);
    CHECK(release_one(0) != CUDA_SUCCESS);
}

static void reset(CUresult (*reset_all)(CUdevice)) {
    CUdeviceptr p = 0;
    int64_t kept = kept_in_pools();
    watch(0);
    const struct vramgc_file *file = check_file();
    uint64_t resets = file ? file->devices[0].stats.resets : 0;
    OK(CALL(cuMemAlloc_v2)(&p, 9 * MIB));
    OK(reset_all(0));
    EXPECT(.held = -kept);
    CHECK(file && file->devices[0].stats.resets == resets + 1);
}

#endif
