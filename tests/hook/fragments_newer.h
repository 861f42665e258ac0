/* fragments_newer.h: a part of fragments_driver.c: calls that this device may be too old for, or
 * has not at all, and launches. Where it has none the wrapper is not reached either. */
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
    OK(CALL(cuStreamDestroy_v2)(stream));
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

#endif
