/* fragments_driver.c: a fragment for each hooked driver function; see fragments_runtime.c. */
#include "api.h"
#include "check.h"
#include <unistd.h>
enum { PAGE_BYTES = 2 << 20 };

static void plain(void) {
    CUdeviceptr p = 0, q = 0;
    size_t pitch_bytes = 0;
    watch(0);
    OK(CALL(cuMemAlloc_v2)(&p, 3 * MIB + 512));
    EXPECT(.held = 3 * MIB + 512, .other = 3 * MIB + 512);
    OK(CALL(cuMemAllocPitch_v2)(&q, &pitch_bytes, 1000, 64, 4));
    int64_t both = (int64_t)(3 * MIB + 512 + pitch_bytes * 64);
    EXPECT(.held = both, .other = both);
    OK(CALL(cuMemFree_v2)(p));
    OK(CALL(cuMemFree_v2)(q));
    UNCHANGED();
}

/* A refused free changes nothing, and the address is still known afterwards. */
static void refused_free(void) {
    CUdeviceptr p = 0;
    const struct vramgc_file *file = check_file();
    watch(0);
    OK(CALL(cuMemAlloc_v2)(&p, 4 * MIB));
    CHECK(CALL(cuMemFree_v2)(p + 512) != CUDA_SUCCESS);
    CHECK(CALL(cuMemFreeHost)((void *)(uintptr_t)p) != CUDA_SUCCESS);
    EXPECT(.held = 4 * MIB, .other = 4 * MIB);
    OK(CALL(cuMemFree_v2)(p));
    UNCHANGED();
    uint64_t unknown = file ? file->process.unknown_frees : 0;
    CHECK(CALL(cuMemFree_v2)(p) != CUDA_SUCCESS);
    UNCHANGED();
    CHECK(file && file->process.unknown_frees == unknown);
}

static void refused_allocation(void) {
    CUdeviceptr p = 0;
    const struct vramgc_file *file = check_file();
    uint64_t refusals = file ? file->devices[0].stats.refusals : 0;
    watch(0);
    CHECK(CALL(cuMemAlloc_v2)(&p, (size_t)1 << 50) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(CALL(cuMemAllocManaged)(NULL, 512, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
    UNCHANGED();
    CHECK(file && file->devices[0].stats.refusals == refusals + 1);
    CHECK(file && file->refusals[refusals].request_bytes == (uint64_t)1 << 50);
}

static void managed(void) {
    CUdeviceptr p = 0;
    watch(0);
    OK(CALL(cuMemAllocManaged)(&p, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
    EXPECT(.managed = 5 * MIB);
    OK(CALL(cuMemFree_v2)(p));
    UNCHANGED();
}

static void host(void) {
    static _Alignas(4096) char own[64 * KIB];
    void *p = NULL;
    watch(0);
    OK(CALL(cuMemAllocHost_v2)(&p, 70 * KIB));
    EXPECT(.pinned = 70 * KIB);
    OK(CALL(cuMemFreeHost)(p));
    UNCHANGED();
    OK(CALL(cuMemHostAlloc)(&p, 80 * KIB, 0));
    EXPECT(.pinned = 80 * KIB);
    OK(CALL(cuMemFreeHost)(p));
    UNCHANGED();
    OK(CALL(cuMemHostAlloc)(&p, 4 * MIB, 0));
    EXPECT(.pinned = 4 * MIB, .rounded = 4 * MIB);
    OK(CALL(cuMemFreeHost)(p));
    UNCHANGED();
    OK(CALL(cuMemHostRegister)(own, 64 * KIB, 0));
    EXPECT(.pinned = 64 * KIB);
    OK(CALL(cuMemHostUnregister)(own));
    OK(CALL(cuMemHostRegister_v2)(own, 64 * KIB, 0));
    EXPECT(.pinned = 64 * KIB);
    OK(CALL(cuMemHostUnregister)(own));
    UNCHANGED();
}

typedef CUresult allocate_async(CUdeviceptr *, size_t, CUstream);
typedef CUresult from_pool(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult free_async(CUdeviceptr, CUstream);

static void one_async(allocate_async *allocate, free_async *give_back) {
    CUdeviceptr p = 0;
    int64_t added = new_in_pool(6 * MIB);
    watch(0);
    OK(allocate(&p, 6 * MIB, NULL));
    EXPECT(.held = added, .pool = 6 * MIB);
    OK(give_back(p, NULL));
    EXPECT(.held = added);
}

static void one_pool(from_pool *allocate, CUmemoryPool pool) {
    CUdeviceptr p = 0;
    int64_t added = new_in_pool(7 * MIB);
    watch(0);
    OK(allocate(&p, 7 * MIB, pool, NULL));
    EXPECT(.held = added, .pool = 7 * MIB);
    OK(CALL(cuMemFreeAsync)(p, NULL));
    EXPECT(.held = added);
}

/* What is asked of a pool of the program's own, and what it is told, is the driver's business. */
static void pool_calls(CUmemoryPool pool) {
    cuuint64_t used = 1, zero = 0;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    watch(0);
    OK(CALL(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    OK(CALL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
    CHECK(used == 0);
    OK(CALL(cuMemPoolSetAccess)(pool, &access, 1));
    OK(CALL(cuMemPoolTrimTo)(pool, 0));
    UNCHANGED();
}

static void pools(void) {
    CUmemoryPool pool = NULL;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    one_async(CALL(cuMemAllocAsync), CALL(cuMemFreeAsync));
    one_async(CALL(cuMemAllocAsync_ptsz), CALL(cuMemFreeAsync_ptsz));
    OK(MORE(cuMemPoolCreate)(&pool, &properties));
    one_pool(CALL(cuMemAllocFromPoolAsync), pool);
    one_pool(CALL(cuMemAllocFromPoolAsync_ptsz), pool);
    pool_calls(pool);
    OK(CALL(cuMemPoolDestroy)(pool));
}

/* Both forms of the look-up, called by whatever route this program took to them. */
static void look_ups(void) {
    CUresult (*allocate)(CUdeviceptr *, size_t) = NULL, (*give_back)(CUdeviceptr) = NULL;
    CUdeviceptr p = 0;
    OK(CALL(cuGetProcAddress)("cuMemAlloc", (void **)&allocate, 11030, 0));
    OK(CALL(cuGetProcAddress_v2)("cuMemFree", (void **)&give_back, 12000, 0, NULL));
    watch(0);
    OK(allocate(&p, 8 * MIB));
    EXPECT(.held = 8 * MIB, .other = 8 * MIB);
    OK(give_back(p));
    UNCHANGED();
}

static void memory_info(void) {
    size_t free_bytes = 0, total_bytes = 0;
    watch(0);
    OK(CALL(cuMemGetInfo_v2)(&free_bytes, &total_bytes) +
       CALL(cuDeviceTotalMem_v2)(&total_bytes, 0));
    UNCHANGED();
    const struct vramgc_file *file = check_file();
    CHECK(file && file->devices[0].stats.used_bytes.current == total_bytes - free_bytes);
}

/* --- virtual memory management: bytes belong to the physical memory, whatever is mapped --- */

static CUmemAllocationProp physical_properties(void) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    };
}

static CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemAllocationProp properties = physical_properties();
    CUmemGenericAllocationHandle handle = 0;
    OK(CALL(cuMemCreate)(&handle, bytes, &properties, 0));
    return handle;
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address = 0;
    OK(CALL(cuMemAddressReserve)(&address, bytes, 0, 0, 0));
    return address;
}

static void virtual_memory(void) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    watch(0);
    CUdeviceptr at = reserve(4 * PAGE_BYTES);
    EXPECT(.address = 4 * PAGE_BYTES);
    CUmemGenericAllocationHandle handle = create(2 * PAGE_BYTES);
    EXPECT(.address = 4 * PAGE_BYTES, .held = 2 * PAGE_BYTES, .other = 2 * PAGE_BYTES);
    OK(CALL(cuMemMap)(at, 2 * PAGE_BYTES, 0, handle, 0));
    OK(CALL(cuMemSetAccess)(at, 2 * PAGE_BYTES, &access, 1));
    CHECK(CALL(cuMemAddressFree)(at, 4 * PAGE_BYTES) != CUDA_SUCCESS); /* still mapped */
    EXPECT(.address = 4 * PAGE_BYTES, .held = 2 * PAGE_BYTES, .other = 2 * PAGE_BYTES);
    OK(CALL(cuMemUnmap)(at, 2 * PAGE_BYTES));
    EXPECT(.address = 4 * PAGE_BYTES, .held = 2 * PAGE_BYTES, .other = 2 * PAGE_BYTES);
    OK(CALL(cuMemRelease)(handle));
    EXPECT(.address = 4 * PAGE_BYTES);
    OK(CALL(cuMemAddressFree)(at, 4 * PAGE_BYTES));
    UNCHANGED();
}

/* Memory released while it is mapped goes with its last mapping. */
static void release_before_unmap(void) {
    watch(0);
    CUdeviceptr at = reserve(2 * PAGE_BYTES);
    CUmemGenericAllocationHandle handle = create(PAGE_BYTES);
    OK(CALL(cuMemMap)(at, PAGE_BYTES, 0, handle, 0));
    OK(CALL(cuMemMap)(at + PAGE_BYTES, PAGE_BYTES, 0, handle, 0));
    OK(CALL(cuMemRelease)(handle));
    EXPECT(.address = 2 * PAGE_BYTES, .held = PAGE_BYTES, .other = PAGE_BYTES);
    /* The driver may use the number of the handle anew at once. */
    CUmemGenericAllocationHandle next = create(3 * PAGE_BYTES);
    EXPECT(.address = 2 * PAGE_BYTES, .held = 4 * PAGE_BYTES, .other = 4 * PAGE_BYTES);
    OK(CALL(cuMemUnmap)(at, PAGE_BYTES));
    EXPECT(.address = 2 * PAGE_BYTES, .held = 4 * PAGE_BYTES, .other = 4 * PAGE_BYTES);
    OK(CALL(cuMemUnmap)(at + PAGE_BYTES, PAGE_BYTES));
    EXPECT(.address = 2 * PAGE_BYTES, .held = 3 * PAGE_BYTES, .other = 3 * PAGE_BYTES);
    OK(CALL(cuMemRelease)(next));
    OK(CALL(cuMemAddressFree)(at, 2 * PAGE_BYTES));
    UNCHANGED();
}

/* A handle may be had back from a mapping, after its release too; every reference counts. */
static void retain(void) {
    CUmemGenericAllocationHandle again = 0;
    watch(0);
    CUdeviceptr at = reserve(PAGE_BYTES);
    CUmemGenericAllocationHandle handle = create(PAGE_BYTES);
    OK(CALL(cuMemMap)(at, PAGE_BYTES, 0, handle, 0));
    OK(CALL(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)at));
    OK(CALL(cuMemRelease)(handle));
    EXPECT(.address = PAGE_BYTES, .held = PAGE_BYTES, .other = PAGE_BYTES);
    OK(CALL(cuMemRelease)(again));
    EXPECT(.address = PAGE_BYTES, .held = PAGE_BYTES, .other = PAGE_BYTES);
    OK(CALL(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)at));
    OK(CALL(cuMemUnmap)(at, PAGE_BYTES));
    EXPECT(.address = PAGE_BYTES, .held = PAGE_BYTES, .other = PAGE_BYTES);
    OK(CALL(cuMemRelease)(again));
    EXPECT(.address = PAGE_BYTES);
    OK(CALL(cuMemAddressFree)(at, PAGE_BYTES));
    UNCHANGED();
}

/* One unmap may take several mappings. */
static void unmap_many(void) {
    CUmemGenericAllocationHandle handles[3];
    watch(0);
    CUdeviceptr at = reserve(3 * PAGE_BYTES);
    for (unsigned i = 0; i < 3; i++) {
        handles[i] = create(PAGE_BYTES);
        OK(CALL(cuMemMap)(at + i * PAGE_BYTES, PAGE_BYTES, 0, handles[i], 0));
        OK(CALL(cuMemRelease)(handles[i]));
    }
    EXPECT(.address = 3 * PAGE_BYTES, .held = 3 * PAGE_BYTES, .other = 3 * PAGE_BYTES);
    OK(CALL(cuMemUnmap)(at, 3 * PAGE_BYTES));
    EXPECT(.address = 3 * PAGE_BYTES);
    OK(CALL(cuMemAddressFree)(at, 3 * PAGE_BYTES));
    UNCHANGED();
}

#include "fragments_newer.h"

/* What may be asked of a handle, and a multicast object that there is none of. */
static void questions(void) {
    CUmemAllocationProp properties;
    CUmemGenericAllocationHandle made = create(PAGE_BYTES);
    OK(CALL(cuMemGetAllocationPropertiesFromHandle)(&properties, made));
    CHECK(properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CHECK(CALL(cuMulticastBindMem)(0, 0, made, 0, PAGE_BYTES, 0) != CUDA_SUCCESS);
    CALL(cuMulticastBindAddr)(0, 0, PAGE_BYTES, PAGE_BYTES, 0);
    CALL_IF_THERE(cuMulticastBindMem_v2, 0, 0, 0, made, 0, PAGE_BYTES, 0); /* CUDA 13.1 */
    CALL_IF_THERE(cuMulticastBindAddr_v2, 0, 0, 0, PAGE_BYTES, PAGE_BYTES, 0);
    newer_bindings(made);
    OK(CALL(cuMemRelease)(made));
}

/* A driver may name memory of this process by the handle that it has already: one more reference.
 * Physical memory of another owner is learnt when it is mapped, and is not held by this process. */
static void imported(void) {
    int fd = -1;
    CUmemGenericAllocationHandle handle = create(2 * PAGE_BYTES), other = 0;
    if (CALL(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                           0) != CUDA_SUCCESS) {
        CALL(cuMemImportFromShareableHandle)
        (&other, (void *)(intptr_t)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        OK(CALL(cuMemRelease)(handle));
        return;
    }
    watch(0);
    OK(CALL(cuMemImportFromShareableHandle)(&other, (void *)(intptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CUdeviceptr at = reserve(2 * PAGE_BYTES);
    OK(CALL(cuMemMap)(at, 2 * PAGE_BYTES, 0, other, 0));
    EXPECT(.address = 2 * PAGE_BYTES, .imported = other == handle ? 0 : 2 * PAGE_BYTES);
    OK(CALL(cuMemUnmap)(at, 2 * PAGE_BYTES));
    OK(CALL(cuMemRelease)(other));
    OK(CALL(cuMemAddressFree)(at, 2 * PAGE_BYTES));
    UNCHANGED();
    OK(CALL(cuMemRelease)(handle));
}

/* Memory exported and opened in the same process: most drivers refuse; nothing may be counted
 * then. tests/hook/refuse.c has a driver that does not. */
static void shared(void) {
    CUdeviceptr p = 0, q = 0;
    CUipcMemHandle handle = {{0}};
    OK(CALL(cuMemAlloc_v2)(&p, 4 * MIB));
    watch(0);
    CALL(cuIpcGetMemHandle)(&handle, p);
    CHECK(CALL(cuIpcOpenMemHandle)(&q, (CUipcMemHandle){{0}}, 0) != CUDA_SUCCESS);
    if (CALL(cuIpcOpenMemHandle_v2)(&q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
        CUDA_SUCCESS) {
        EXPECT(.imported = 4 * MIB);
        OK(CALL(cuIpcCloseMemHandle)(q));
    } else {
        CALL(cuIpcCloseMemHandle)(0);
    }
    UNCHANGED();
    OK(CALL(cuMemFree_v2)(p));
}

/* What is asked about an address, and done to it, is none of vramgc's business here. */
static void addresses(void) {
    CUdeviceptr p = 0, base = 0;
    size_t bytes = 0;
    int ordinal = -1, file = -1, on = 1;
    CUcontext own = NULL;
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    void *answer = &ordinal;
    OK(CALL(cuMemAlloc_v2)(&p, 4 * MIB));
    watch(0);
    OK(CALL(cuPointerGetAttribute)(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 100));
    OK(CALL(cuPointerGetAttributes)(1, &wanted, &answer, p + 100));
    CHECK(base == p && ordinal == 0);
    CHECK(!CALL(cuMemGetAddressRange_v2)(&base, &bytes, p + MIB) && bytes == 4 * MIB);
    OK(CALL(cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    CALL(cuMemGetHandleForAddressRange)(&file, p, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    OK(MORE(cuCtxGetCurrent)(&own));
    CHECK(CALL(cuCtxEnablePeerAccess)(own, 0) != CUDA_SUCCESS); /* nobody is his own peer */
    UNCHANGED();
    OK(CALL(cuMemFree_v2)(p));
}

static void capture(CUresult (*begin)(CUstream, CUstreamCaptureMode),
                    CUresult (*end)(CUstream, CUgraph *)) {
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUdeviceptr p = 0;
    const struct vramgc_file *file = check_file();
    OK(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    watch(0);
    OK(begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(file && file->capturing == 1);
    if (CALL(cuMemAllocAsync)(&p, 4 * MIB, stream) == CUDA_SUCCESS) {
        EXPECT(.graph = 4 * MIB);
        OK(CALL(cuMemFreeAsync)(p, stream));
    }
    UNCHANGED();
    OK(end(stream, &graph));
    CHECK(file && file->capturing == 0);
    OK(MORE(cuGraphDestroy)(graph));
    CHECK(begin((CUstream)(uintptr_t)0x12345670, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS);
    CHECK(file && file->capturing == 0);
    OK(CALL(cuStreamDestroy_v2)(stream));
}

/* Into a graph of the program's own, which the end gives back. */
#define TO_GRAPH(symbol)                                                                           \
    static CUresult begin_##symbol(CUstream s, CUstreamCaptureMode m) {                            \
        CUgraph graph = NULL;                                                                      \
        OK(MORE(cuGraphCreate)(&graph, 0));                                                        \
        return CALL(symbol)(s, graph, NULL, NULL, 0, m);                                           \
    }
TO_GRAPH(cuStreamBeginCaptureToGraph)
TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)

static void unaccounted(void) {
    const struct vramgc_file *file = check_file();
    uint64_t before = file ? file->process.unaccounted_calls : 0;
    CUarray array = NULL, array3 = NULL;
    CUmipmappedArray mipmapped = NULL;
    CUexternalMemory memory = NULL;
    CUmemGenericAllocationHandle handle = 0;
    CUDA_ARRAY_DESCRIPTOR flat = {64, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {64, 4, 2, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    static CUDA_EXTERNAL_MEMORY_HANDLE_DESC description; /* all zero */
    static CUmulticastObjectProp multicast;
    CALL(cuArrayCreate_v2)(&array, &flat);
    CALL(cuArray3DCreate_v2)(&array3, &deep);
    CALL(cuMipmappedArrayCreate)(&mipmapped, &deep, 1);
    CALL(cuImportExternalMemory)(&memory, &description);
    CALL(cuMulticastCreate)(&handle, &multicast);
    CHECK(file && file->process.unaccounted_calls == before + 5);
    newer_unaccounted();
    old_forms();
    before = file ? file->process.unaccounted_calls : 0;
    OK(CALL(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB));
    OK(CALL(cuCtxSetLimit)(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128));
    CHECK(file && file->process.unaccounted_calls == before + 1);
    OK(array ? MORE(cuArrayDestroy)(array) : CUDA_SUCCESS);
    OK(array3 ? MORE(cuArrayDestroy)(array3) : CUDA_SUCCESS);
}

static void context(void) {
    CUcontext primary = NULL, made = NULL;
    CUdeviceptr p = 0;
    OK(MORE(cuCtxGetCurrent)(&primary));
    watch(0);
    OK(CALL(cuMemAlloc_v2)(&p, 2 * MIB));
    OK(CALL(cuCtxCreate)(&made, 0, 0));
    OK(CALL(cuCtxDestroy)(made));
    OK(CALL(cuCtxCreate_v2)(&made, 0, 0));
    OK(CALL(cuCtxDestroy_v2)(made));
    OK(CALL(cuCtxCreate_v3)(&made, NULL, 0, 0, 0));
    OK(CALL(cuCtxDestroy_v2)(made));
    EXPECT(.held = 2 * MIB, .other = 2 * MIB); /* what the primary context holds stays */
    OK(MORE(cuCtxSetCurrent)(primary));
    OK(CALL(cuMemFree_v2)(p));
    UNCHANGED();
}

/* What was allocated in the other context goes with it, as if it had been freed. */
static void context_with_memory(CUresult (*destroy)(CUcontext)) {
    CUcontext primary = NULL, made = NULL;
    CUdeviceptr first = 0, p = 0;
    void *host = NULL;
    OK(MORE(cuCtxGetCurrent)(&primary));
    watch(0);
    OK(CALL(cuMemAlloc_v2)(&first, 2 * MIB));
    OK(CALL(cuCtxCreate_v4)(&made, NULL, 0, 0));
    for (int i = 0; i < 100; i++)
        OK(CALL(cuMemAlloc_v2)(&p, 2 * MIB));
    OK(CALL(cuMemHostAlloc)(&host, 3 * MIB, 0));
    EXPECT(.held = 202 * MIB, .other = 202 * MIB, .pinned = 3 * MIB);
    OK(destroy(made));
    EXPECT(.held = 2 * MIB, .other = 2 * MIB);
    OK(MORE(cuCtxSetCurrent)(primary));
    OK(CALL(cuMemFree_v2)(first));
    UNCHANGED();
}

void driver_fragments(void) {
    CUcontext primary = NULL;
    OK(CALL(cuInit)(0));
    CHECK(check_file() == NULL); /* not yet: many a program only asks whether there is a device */
    OK(CALL(cuDevicePrimaryCtxRetain)(&primary, 0));
    CHECK(check_file() != NULL);
    OK(MORE(cuCtxSetCurrent)(primary));
    plain();
    refused_free();
    refused_allocation();
    managed();
    host();
    pools();
    pools_with_host();
    memory_info();
    look_ups();
    virtual_memory();
    release_before_unmap();
    retain();
    unmap_many();
    questions();
    imported();
    shared();
    addresses();
    capture(CALL(cuStreamBeginCapture_v2), CALL(cuStreamEndCapture));
    capture(CALL(cuStreamBeginCapture_v2_ptsz), CALL(cuStreamEndCapture_ptsz));
    capture(begin_cuStreamBeginCaptureToGraph, CALL(cuStreamEndCapture));
    capture(begin_cuStreamBeginCaptureToGraph_ptsz, CALL(cuStreamEndCapture_ptsz));
    capture(begin_old, CALL(cuStreamEndCapture));
    capture(begin_old_ptsz, CALL(cuStreamEndCapture_ptsz));
    streams();
    unaccounted();
    context();
    context_with_memory(CALL(cuCtxDestroy_v2));
    context_with_memory(CALL(cuCtxDestroy));
    reset(CALL(cuDevicePrimaryCtxReset_v2));
    release(CALL(cuDevicePrimaryCtxRelease_v2));
    OK(CALL(cuDevicePrimaryCtxRetain)(&primary, 0));
    OK(MORE(cuCtxSetCurrent)(primary));
    reset(CALL(cuDevicePrimaryCtxReset));
    release(CALL(cuDevicePrimaryCtxRelease));
    OK(CALL(cuDevicePrimaryCtxRetain)(&primary, 0));
    OK(MORE(cuCtxSetCurrent)(primary));
    plain();
}
