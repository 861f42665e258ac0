/* fragments_runtime.c: one fragment for each hooked function of the CUDA runtime, called by
 * whatever route the program around it chose. It is compiled once with direct calls and once
 * with calls through pointers, and must not do anything that a program with a real card could
 * not. */
#include "api.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* What a runtime that is too old, or a simulated one that lacks a function, answers. The byte
 * counts must then be as before. */
static bool absent(cudaError_t result) {
    return result == cudaErrorNotSupported || result == cudaErrorSharedObjectSymbolNotFound;
}

static void plain(void) {
    void *p = NULL, *q = NULL;
    watch(0);
    OK(CALL(cudaMalloc)(&p, 3 * MIB + 512));
    EXPECT(.held = 3 * MIB + 512, .other = 3 * MIB + 512);
    OK(CALL(cudaMalloc)(&q, 100));
    EXPECT(.held = 3 * MIB + 612, .other = 3 * MIB + 612);
    OK(CALL(cudaFree)(p));
    EXPECT(.held = 100, .other = 100);
    OK(CALL(cudaFree)(q));
    UNCHANGED();
}

static void nothing(void) {
    void *p = (void *)0x5a;
    const struct vramgc_file *file = check_file();
    uint64_t unknown = file ? file->process.unknown_frees : 0;
    watch(0);
    OK(CALL(cudaMalloc)(&p, 0));
    OK(CALL(cudaFree)(NULL));
    CHECK(CALL(cudaMalloc)(NULL, 512) == cudaErrorInvalidValue);
    UNCHANGED();
    CHECK(file && file->process.unknown_frees == unknown);
}

static void pitch(void) {
    void *p = NULL;
    size_t pitch_bytes = 0;
    watch(0);
    OK(CALL(cudaMallocPitch)(&p, &pitch_bytes, 1000, 64));
    CHECK(pitch_bytes >= 1000);
    EXPECT(.held = (int64_t)pitch_bytes * 64, .other = (int64_t)pitch_bytes * 64);
    OK(CALL(cudaFree)(p));
    UNCHANGED();
}

static void volume(void) {
    struct cudaPitchedPtr volume = {0};
    struct cudaExtent extent = {1000, 16, 8};
    watch(0);
    OK(CALL(cudaMalloc3D)(&volume, extent));
    CHECK(volume.pitch >= 1000);
    EXPECT(.held = (int64_t)volume.pitch * 128, .other = (int64_t)volume.pitch * 128);
    OK(CALL(cudaFree)(volume.ptr));
    UNCHANGED();
}

static void managed(void) {
    void *p = NULL;
    watch(0);
    OK(CALL(cudaMallocManaged)(&p, 5 * MIB, cudaMemAttachGlobal));
    EXPECT(.managed = 5 * MIB);
    OK(CALL(cudaFree)(p));
    UNCHANGED();
}

static void host(void) {
    void *p = NULL;
    void *own = aligned_alloc(4096, 64 * KIB);
    watch(0);
    OK(CALL(cudaMallocHost)(&p, 70 * KIB));
    EXPECT(.pinned = 70 * KIB);
    OK(CALL(cudaFreeHost)(p));
    UNCHANGED();
    OK(CALL(cudaHostAlloc)(&p, 80 * KIB, cudaHostAllocDefault));
    EXPECT(.pinned = 80 * KIB);
    OK(CALL(cudaFreeHost)(p));
    UNCHANGED();
    OK(CALL(cudaHostRegister)(own, 64 * KIB, cudaHostRegisterDefault));
    EXPECT(.pinned = 64 * KIB);
    OK(CALL(cudaHostUnregister)(own));
    UNCHANGED();
    free(own);
}

/* What the host has not says nothing about the device. */
static void host_is_full(void) {
    void *p = NULL;
    const struct vramgc_file *file = check_file();
    uint64_t refusals = file ? file->devices[0].stats.refusals : 0;
    size_t too_much = (size_t)1 << 60;
    watch(0);
    CHECK(CALL(cudaMallocHost)(&p, too_much) == cudaErrorMemoryAllocation);
    CHECK(CALL(cudaHostAlloc)(&p, too_much, cudaHostAllocDefault) == cudaErrorMemoryAllocation);
    CHECK(CALL(cudaMallocManaged)(&p, too_much, cudaMemAttachGlobal) == cudaErrorMemoryAllocation);
    UNCHANGED();
    CHECK(file && file->devices[0].stats.refusals == refusals);
}

typedef cudaError_t allocate_async(void **, size_t, cudaStream_t);
typedef cudaError_t free_async(void *, cudaStream_t);

static void one_async(allocate_async *allocate, free_async *give_back) {
    void *p = NULL;
    int64_t added = new_in_pool(6 * MIB);
    watch(0);
    cudaError_t result = allocate(&p, 6 * MIB, NULL);
    if (absent(result)) {
        UNCHANGED();
        return;
    }
    OK(result);
    EXPECT(.held = added, .pool = 6 * MIB);
    OK(give_back(p, NULL));
    EXPECT(.held = added);
}

static void async(void) {
    one_async(CALL(cudaMallocAsync), CALL(cudaFreeAsync));
    one_async(CALL(cudaMallocAsync_ptsz), CALL(cudaFreeAsync_ptsz));
    void *p = NULL;
    int64_t added = new_in_pool(MIB);
    watch(0);
    OK(CALL(cudaMallocAsync)(&p, MIB, NULL));
    OK(CALL(cudaFree)(p)); /* allowed: stream-ordered memory, freed the plain way */
    EXPECT(.held = added);
    CALL(cudaFreeAsync_ptsz)(NULL, NULL);
}

typedef cudaError_t from_pool(void **, size_t, cudaMemPool_t, cudaStream_t);

static void one_pool(from_pool *allocate, cudaMemPool_t pool) {
    void *p = NULL;
    int64_t added = new_in_pool(7 * MIB);
    watch(0);
    cudaError_t result = allocate(&p, 7 * MIB, pool, NULL);
    if (absent(result)) {
        UNCHANGED();
        return;
    }
    OK(result);
    EXPECT(.held = added, .pool = 7 * MIB);
    OK(CALL(cudaFreeAsync)(p, NULL));
    EXPECT(.held = added);
}

static void pools(void) {
    cudaMemPool_t pool = NULL;
    OK(MORE(cudaDeviceGetDefaultMemPool)(&pool, 0));
    one_pool(CALL(cudaMallocFromPoolAsync), pool);
    one_pool(CALL(cudaMallocFromPoolAsync_ptsz), pool);
}

/* One of the two is in each release. */
static void properties(size_t total_bytes) {
    union {
        struct cudaDeviceProp plain;
        char room[4096];
    } about = {0};
    cudaError_t (*const asks[])(struct cudaDeviceProp *, int) = {CALL(cudaGetDeviceProperties),
                                                                 CALL(cudaGetDeviceProperties_v2)};
    int answers = 0;
    for (size_t i = 0; i < 2; i++) {
        cudaError_t result = asks[i] ? asks[i](&about.plain, 0) : cudaErrorNotSupported;
        CHECK(absent(result) || about.plain.totalGlobalMem == total_bytes);
        answers += result == cudaSuccess;
    }
    CHECK(answers > 0);
}

static void memory_info(void) {
    size_t free_bytes = 0, total_bytes = 0;
    watch(0);
    OK(CALL(cudaMemGetInfo)(&free_bytes, &total_bytes));
    properties(total_bytes);
    UNCHANGED();
    CHECK(free_bytes < total_bytes);
    const struct vramgc_file *file = check_file();
    CHECK(file && file->devices[0].stats.used_bytes.current == total_bytes - free_bytes);
}

static void events(void) {
    cudaEvent_t event = NULL;
    cudaStream_t stream = NULL;
    OK(CALL(cudaStreamCreate)(&stream));
    OK(MORE(cudaEventCreate)(&event));
    OK(CALL(cudaEventRecord)(event, stream));
    OK(CALL(cudaEventRecordWithFlags)(event, stream, 0));
    OK(CALL(cudaEventSynchronize)(event));
    OK(CALL(cudaEventQuery)(event));
    OK(MORE(cudaStreamSynchronize)(stream));
    OK(MORE(cudaDeviceSynchronize)());
    OK(CALL(cudaEventDestroy)(event));
    OK(CALL(cudaStreamDestroy)(stream));
}

static void capture(void) {
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    void *p = NULL;
    const struct vramgc_file *file = check_file();
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    OK(CALL(cudaStreamCreate)(&stream));
    watch(0);
    OK(CALL(cudaStreamBeginCapture)(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(file && file->capturing == 1);
    OK(CALL(cudaStreamIsCapturing)(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    if (!absent(CALL(cudaMallocAsync)(&p, 4 * MIB, stream))) {
        EXPECT(.graph = 4 * MIB);
        OK(CALL(cudaFreeAsync)(p, stream));
    }
    UNCHANGED();
    OK(CALL(cudaStreamEndCapture)(stream, &graph));
    CHECK(file && file->capturing == 0);
    OK(MORE(cudaGraphInstantiateWithFlags)(&exec, graph, 0));
    OK(MORE(cudaGraphLaunch)(exec, stream));
    OK(MORE(cudaStreamSynchronize)(stream));
    OK(MORE(cudaGraphExecDestroy)(exec));
    OK(MORE(cudaGraphDestroy)(graph));
    /* Ending what never began is an error, and no capture is left behind. */
    CHECK(CALL(cudaStreamEndCapture)(stream, &graph) != cudaSuccess);
    CHECK(file && file->capturing == 0);
    OK(CALL(cudaStreamDestroy)(stream));
    UNCHANGED();
}

/* Into a graph of the program's own: since CUDA 12.3. */
static void capture_to_graph(void) {
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL, ended = NULL;
    const struct vramgc_file *file = check_file();
    cudaError_t result = cudaErrorNotSupported;
    OK(CALL(cudaStreamCreate)(&stream));
    OK(MORE(cudaGraphCreate)(&graph, 0));
    if (CALL(cudaStreamBeginCaptureToGraph))
        result = CALL(cudaStreamBeginCaptureToGraph)(stream, graph, NULL, NULL, 0,
                                                     cudaStreamCaptureModeThreadLocal);
    if (!absent(result)) {
        OK(result);
        CHECK(file && file->capturing == 1);
        OK(CALL(cudaStreamEndCapture)(stream, &ended));
    }
    CHECK(file && file->capturing == 0);
    OK(MORE(cudaGraphDestroy)(graph));
    OK(CALL(cudaStreamDestroy)(stream));
}

/* A stream takes no memory that counts. */
static void streams(void) {
    cudaStream_t stream = NULL;
    watch(0);
    OK(CALL(cudaStreamCreateWithFlags)(&stream, cudaStreamNonBlocking));
    OK(CALL(cudaStreamDestroy)(stream));
    OK(CALL(cudaStreamCreateWithPriority)(&stream, cudaStreamNonBlocking, -1));
    OK(CALL(cudaStreamDestroy)(stream));
    UNCHANGED();
}

/* A capture concerns its own stream: what happens to another one is as ever. */
static void two_streams(void) {
    cudaStream_t captured = NULL, other = NULL;
    cudaGraph_t graph = NULL;
    void *p = NULL;
    const struct vramgc_file *file = check_file();
    OK(CALL(cudaStreamCreate)(&captured));
    OK(CALL(cudaStreamCreate)(&other));
    OK(CALL(cudaStreamBeginCapture)(captured, cudaStreamCaptureModeRelaxed));
    CHECK(CALL(cudaStreamBeginCapture)(captured, cudaStreamCaptureModeRelaxed) != cudaSuccess);
    CHECK(file && file->capturing == 1);
    CHECK(CALL(cudaStreamEndCapture)(other, &graph) != cudaSuccess);
    CHECK(file && file->capturing == 1);
    int64_t added = new_in_pool(4 * MIB);
    watch(0);
    if (!absent(CALL(cudaMallocAsync)(&p, 4 * MIB, other))) {
        EXPECT(.held = added, .pool = 4 * MIB);
        OK(CALL(cudaFreeAsync)(p, other));
    }
    OK(CALL(cudaStreamDestroy)(other));
    CHECK(file && file->capturing == 1);
    OK(CALL(cudaStreamEndCapture)(captured, &graph));
    CHECK(file && file->capturing == 0);
    OK(MORE(cudaGraphDestroy)(graph));
    OK(CALL(cudaStreamBeginCapture)(captured, cudaStreamCaptureModeRelaxed));
    if (CALL(cudaStreamDestroy)(captured) == cudaSuccess)
        CHECK(file && file->capturing == 0);
}

static void entry_points(void) {
    void *f = NULL;
    CUdeviceptr p = 0;
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    OK(CALL(cudaGetDriverEntryPoint)("cuMemAlloc", &f, cudaEnableDefault, &status));
    watch(0);
    if (CHECK(f != NULL)) {
        OK(((CUresult(*)(CUdeviceptr *, size_t))f)(&p, 2 * MIB));
        EXPECT(.held = 2 * MIB, .other = 2 * MIB);
    }
    cudaError_t result = cudaErrorNotSupported;
    if (CALL(cudaGetDriverEntryPointByVersion))
        result = CALL(cudaGetDriverEntryPointByVersion)("cuMemFree", &f, 12000, cudaEnableDefault,
                                                        &status);
    if (absent(result)) /* before CUDA 12.5 */
        OK(CALL(cudaGetDriverEntryPoint)("cuMemFree", &f, cudaEnableDefault, &status));
    if (CHECK(f != NULL)) {
        OK(((CUresult(*)(CUdeviceptr))f)(p));
        UNCHANGED();
    }
}

/* What is asked about an address, and done to it, is none of vramgc's business here. */
static void addresses(void) {
    struct cudaPointerAttributes attributes;
    cudaIpcMemHandle_t handle;
    char text[8] = "";
    void *p = NULL;
    OK(CALL(cudaMalloc)(&p, 4 * MIB));
    watch(0);
    OK(CALL(cudaPointerGetAttributes)(&attributes, p));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    OK(MORE(cudaMemsetAsync)(p, 0, 7, NULL));
    OK(MORE(cudaMemcpy)(p, "before", 7, cudaMemcpyHostToDevice));
    OK(CALL(cudaMemcpyAsync)(p, "copied", 7, cudaMemcpyHostToDevice, NULL));
    OK(CALL(cudaMemcpyAsync)((char *)p + 512, p, 7, cudaMemcpyDeviceToDevice, NULL));
    OK(CALL(cudaMemcpyAsync)(text, (char *)p + 512, 7, cudaMemcpyDefault, NULL));
    OK(MORE(cudaStreamSynchronize)(NULL));
    CHECK(strcmp(text, "copied") == 0);
    CHECK(strcmp(CALL(cudaGetErrorString)(cudaErrorMemoryAllocation), "out of memory") == 0);
    CALL(cudaIpcGetMemHandle)(&handle, p);                        /* not every machine can */
    CHECK(CALL(cudaDeviceEnablePeerAccess)(0, 0) != cudaSuccess); /* nobody is his own peer */
    CHECK(CALL(cudaGetLastError)() != cudaSuccess && CALL(cudaGetLastError)() == cudaSuccess);
    UNCHANGED();
    OK(CALL(cudaFree)(p));
}

/* What vramgc sees and cannot account is counted as such. */
static void unaccounted(void) {
    const struct vramgc_file *file = check_file();
    uint64_t before = file ? file->process.unaccounted_calls : 0;
    struct cudaExtent extent = {64, 4, 2};
    struct cudaChannelFormatDesc format = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
    cudaArray_t array = NULL;
    cudaMipmappedArray_t mipmapped = NULL;
    cudaExternalMemory_t memory = NULL;
    struct cudaExternalMemoryHandleDesc description = {0};
    CALL(cudaMallocArray)(&array, &format, 64, 4, 0);
    CALL(cudaMalloc3DArray)(&array, &format, extent, 0);
    CALL(cudaMallocMipmappedArray)(&mipmapped, &format, extent, 1, 0);
    CALL(cudaImportExternalMemory)(&memory, &description);
    CHECK(file && file->process.unaccounted_calls == before + 4);
}

static void reset(void) {
    void *p = NULL;
    int64_t kept = kept_in_pools();
    watch(0);
    const struct vramgc_file *file = check_file();
    uint64_t resets = file ? file->devices[0].stats.resets : 0;
    OK(CALL(cudaMalloc)(&p, 9 * MIB));
    OK(CALL(cudaMallocManaged)(&p, 9 * MIB, cudaMemAttachGlobal));
    EXPECT(.held = 9 * MIB, .other = 9 * MIB, .managed = 9 * MIB);
    OK(CALL(cudaDeviceReset)());
    EXPECT(.held = -kept);
    CHECK(file && file->devices[0].stats.resets == resets + 1);
}

void runtime_fragments(void) {
    OK(CALL(cudaFree)(NULL)); /* the usual way to make a context */
    CHECK(check_file() != NULL);
    plain();
    nothing();
    pitch();
    volume();
    managed();
    host();
    host_is_full();
    async();
    pools();
    memory_info();
    events();
    capture();
    capture_to_graph();
    streams();
    two_streams();
    entry_points();
    addresses();
    unaccounted();
    reset();
    plain(); /* there is a life after the reset */
}
