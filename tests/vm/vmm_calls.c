/* vmm_calls.c: virtual handles answer as the driver does, and none of them ever reaches it: the
 * simulated device reports each handle that it does not know. Three objects: the program, libc10.so
 * (-DC10) and libc10_cuda.so (-DALLOCATOR), from which PyTorch's allocator would call. Usage:
 * vmm_calls one | two (devices) */
#include "vmm_calls.h"

#define REPORT      _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define DEVICE_CUDA ((uint64_t)1)

#pragma GCC visibility push(default)
void REPORT(void *p, int64_t bytes, size_t allocated, size_t reserved, uint64_t device);

#if defined(C10)

void REPORT(void *p, int64_t bytes, size_t allocated, size_t reserved, uint64_t device) {
    (void)p, (void)bytes, (void)allocated, (void)reserved, (void)device;
}

/* What an error is made of: without it there is no engine. None is raised here. */
#define PART(symbol)                                                                               \
    void symbol(void);                                                                             \
    void symbol(void) {}
PART(_ZN3c105ErrorC1ENS_14SourceLocationESs)
PART(_ZNSsC1EPKcRKSaIcE)
PART(_ZNSsD1Ev)
PART(__cxa_allocate_exception)
PART(__cxa_throw)
PART(_ZTIN3c1016OutOfMemoryErrorE)
PART(_ZTVN3c1016OutOfMemoryErrorE)

#elif defined(ALLOCATOR)

/* No tail calls: vramgc looks at who calls. */
#define FROM_HERE(...)                                                                             \
    volatile CUresult result = __VA_ARGS__;                                                        \
    return result

static CUresult reserve(CUdeviceptr *p, size_t n) {
    FROM_HERE(cuMemAddressReserve(p, n, 0, 0, 0));
}

static CUresult address_free(CUdeviceptr p, size_t n) {
    FROM_HERE(cuMemAddressFree(p, n));
}

static CUresult create(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *d) {
    FROM_HERE(cuMemCreate(h, n, d, 0));
}

static CUresult release(CUmemGenericAllocationHandle h) {
    FROM_HERE(cuMemRelease(h));
}

static CUresult map(CUdeviceptr p, size_t n, CUmemGenericAllocationHandle h) {
    FROM_HERE(cuMemMap(p, n, 0, h, 0));
}

static CUresult unmap(CUdeviceptr p, size_t n) {
    FROM_HERE(cuMemUnmap(p, n));
}

static void block(CUdeviceptr p, int64_t bytes) {
    REPORT((void *)(uintptr_t)p, bytes, 0, 0, DEVICE_CUDA);
}

const struct allocator *fake_allocator(void) {
    static const struct allocator allocator = {reserve, address_free, create, release,
                                               map,     unmap,        block};
    return &allocator;
}

#else

#include "check.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_BYTES = 2 << 20, BIG_BYTES = 10 * PAGE_BYTES, RANGE_BYTES = 8 * BIG_BYTES };

static const struct allocator *torch;
static CUcontext primary;

/* CUDA 13.1 and 13.3 have them; here nobody but vramgc. */
CUresult cuLogicalEndpointBindMem(cuuint32_t e, CUdevice d, cuuint64_t at,
                                  CUmemGenericAllocationHandle h, cuuint64_t offset, cuuint64_t n,
                                  unsigned long long f) __attribute__((weak));
CUresult cuLogicalEndpointBindAddr(cuuint32_t e, CUdevice d, cuuint64_t at, void *p, cuuint64_t n,
                                   unsigned long long f) __attribute__((weak));
CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned count, CUstream s) __attribute__((weak));
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle m, CUdevice d, size_t at,
                               CUmemGenericAllocationHandle h, size_t offset, size_t n,
                               unsigned long long f) __attribute__((weak));
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle m, CUdevice d, size_t at,
                                CUdeviceptr p, size_t n, unsigned long long f)
    __attribute__((weak));

static const CUmemAccessDesc all_access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static bool is_virtual(CUmemGenericAllocationHandle handle) {
    return handle >> 48 == 0x7647;
}

static CUmemGenericAllocationHandle create(void) {
    CUmemAllocationProp wanted = properties_of(CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle handle = 0;
    OK(torch->create(&handle, BIG_BYTES, &wanted));
    CHECK(is_virtual(handle));
    return handle;
}

static size_t free_bytes(void) {
    size_t free_bytes = 0, total_bytes = 0;
    OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    return free_bytes;
}

static CUdeviceptr reserve(void) {
    CUdeviceptr at = 0;
    OK(torch->reserve(&at, RANGE_BYTES));
    return at;
}

/* What the driver refuses PyTorch is refused; what somebody else asks for is the driver's. */
static void kinds(void) {
    CUmemAllocationProp fabric = properties_of(CU_MEM_HANDLE_TYPE_FABRIC);
    CUmemAllocationProp shared = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), back;
    CUmemGenericAllocationHandle handle = 0;
    watch(0);
    for (int i = 0; i < 2; i++) {
        CUresult theirs = cuMemCreate(&handle, BIG_BYTES, &fabric, 0);
        if (theirs == CUDA_SUCCESS)
            OK(cuMemRelease(handle));
        CHECK(torch->create(&handle, BIG_BYTES, &fabric) == theirs);
        if (theirs == CUDA_SUCCESS)
            OK(torch->release(handle));
    }
    CHECK(torch->create(&handle, BIG_BYTES + 512, &shared) == CUDA_ERROR_INVALID_VALUE);
    CHECK(torch->create(NULL, BIG_BYTES, &shared) == CUDA_ERROR_INVALID_VALUE);
    UNCHANGED();
    OK(torch->create(&handle, BIG_BYTES, &shared));
    CHECK(is_virtual(handle));
    UNCHANGED(); /* nothing physical */
    OK(cuMemGetAllocationPropertiesFromHandle(&back, handle));
    CHECK(back.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    int fd = -1;
    CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuMulticastBindMem(0, 0, handle, 0, BIG_BYTES, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuMulticastBindMem_v2(0, 0, 0, handle, 0, BIG_BYTES, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuLogicalEndpointBindMem(0, 0, 0, handle, 0, BIG_BYTES, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CUarrayMapInfo tile = {.memHandle.memHandle = handle};
    CHECK(cuMemMapArrayAsync(&tile, 1, NULL) == CUDA_ERROR_NOT_SUPPORTED);
    OK(torch->release(handle));
    CHECK(torch->release(handle) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemGetAllocationPropertiesFromHandle(&back, handle) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemCreate(&handle, BIG_BYTES, &shared, 0));
    CHECK(!is_virtual(handle));
    EXPECT(.held = BIG_BYTES, .other = BIG_BYTES);
    OK(cuMemRelease(handle));
    UNCHANGED();
}

static void wrong_places(CUdeviceptr at, CUmemGenericAllocationHandle handle) {
    CUdeviceptr own = 0;
    OK(cuMemAddressReserve(&own, BIG_BYTES, 0, 0, 0));
    CHECK(cuMemMap(own, BIG_BYTES, 0, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemAddressFree(own, BIG_BYTES));
    CHECK(torch->map(at, PAGE_BYTES, handle) == CUDA_ERROR_INVALID_VALUE);
    CHECK(torch->map(at + 512, BIG_BYTES, handle) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemMap(at, BIG_BYTES, PAGE_BYTES, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(torch->map(at + RANGE_BYTES - PAGE_BYTES, BIG_BYTES, handle) != CUDA_SUCCESS);
}

static void mapped_twice(CUdeviceptr at, CUmemGenericAllocationHandle handle) {
    CUmemGenericAllocationHandle other = create();
    CHECK(torch->map(at + BIG_BYTES, BIG_BYTES, handle) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(torch->map(at, BIG_BYTES, other) == CUDA_ERROR_INVALID_VALUE);
    CHECK(torch->map(at + PAGE_BYTES, BIG_BYTES, other) == CUDA_ERROR_INVALID_VALUE);
    OK(torch->release(other));
}

/* Of memory that is not ours the driver is asked; this one has no such function. */
static void bound(CUdeviceptr at) {
    CHECK(cuMulticastBindAddr(0, 0, at, BIG_BYTES, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuMulticastBindAddr_v2(0, 0, 0, at, BIG_BYTES, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuLogicalEndpointBindAddr(0, 0, 0, (void *)(uintptr_t)at, BIG_BYTES, 0) ==
          CUDA_ERROR_NOT_SUPPORTED);
    /* What is not PyTorch's goes on to the driver, which vmm.bats has answer so. */
    CHECK(cuMulticastBindAddr(0, 0, BIG_BYTES, BIG_BYTES, 0) == CUDA_ERROR_ILLEGAL_STATE);
    CHECK(cuMulticastBindAddr_v2(0, 0, 0, BIG_BYTES, BIG_BYTES, 0) == CUDA_ERROR_ILLEGAL_STATE);
    CHECK(cuMulticastBindMem_v2(0, 0, 0, BIG_BYTES, 0, BIG_BYTES, 0) == CUDA_ERROR_ILLEGAL_STATE);
}

/* Who asks where memory lies hears of what PyTorch has mapped, not of pages. */
static void place(CUdeviceptr at, CUdeviceptr inside) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    unsigned type = 0;
    OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
    CHECK(start == at && bytes == BIG_BYTES && type == CU_MEMORYTYPE_DEVICE);
    OK(cuMemGetAddressRange_v2(&start, &bytes, inside));
    CHECK(start == at && bytes == BIG_BYTES);
}

/* The pages of the block stay until they are wanted elsewhere. */
enum { BLOCK_BYTES = 2 * PAGE_BYTES };
static void blocks(CUdeviceptr at) {
    OK(cuMemSetAccess(at, BIG_BYTES, &all_access, 1));
    EXPECT(.address = RANGE_BYTES, .held = 0);
    torch->block(at + PAGE_BYTES, PAGE_BYTES + 512);
    EXPECT(.address = RANGE_BYTES, .held = BLOCK_BYTES);
    OK(cuMemsetD8_v2(at + PAGE_BYTES, 1, PAGE_BYTES + 512));
    place(at, at + PAGE_BYTES + 512);
    torch->block(at + PAGE_BYTES, -(PAGE_BYTES + 512));
    EXPECT(.address = RANGE_BYTES, .held = BLOCK_BYTES);
}

static void mapping(void) {
    CUmemGenericAllocationHandle handle = create(), again = 0;
    watch(0);
    CUdeviceptr at = reserve();
    wrong_places(at, handle);
    CHECK(cuMemSetAccess(at, BIG_BYTES, &all_access, 1) != CUDA_SUCCESS); /* not mapped */
    OK(torch->map(at, BIG_BYTES, handle));
    mapped_twice(at, handle);
    bound(at);
    CHECK(cuMemSetAccess(at, 2 * BIG_BYTES, &all_access, 1) == CUDA_ERROR_INVALID_VALUE);
    blocks(at);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + PAGE_BYTES)));
    CHECK(again == handle);
    OK(torch->release(handle));
    OK(cuMemRelease(again));
    CHECK(torch->release(handle) == CUDA_ERROR_INVALID_VALUE); /* though it is mapped still */
    CHECK(torch->address_free(at, RANGE_BYTES) == CUDA_ERROR_INVALID_VALUE);
    CHECK(torch->unmap(at, PAGE_BYTES) == CUDA_ERROR_INVALID_VALUE);
    CHECK(torch->unmap(at + PAGE_BYTES, BIG_BYTES) == CUDA_ERROR_INVALID_VALUE);
    OK(torch->unmap(at, BIG_BYTES));
    EXPECT(.address = RANGE_BYTES, .held = BLOCK_BYTES); /* kept for the next block */
    OK(torch->address_free(at, RANGE_BYTES));
}

/* PyTorch asks when it is refused a page in the middle of a block, and tells the answer. */
static void free_memory(void) {
    size_t before = free_bytes();
    CUdeviceptr at = reserve();
    CUmemGenericAllocationHandle handle = create();
    CHECK(free_bytes() == before - BIG_BYTES);
    OK(torch->map(at, BIG_BYTES, handle));
    CHECK(free_bytes() == before - BIG_BYTES);
    OK(torch->unmap(at, BIG_BYTES));
    OK(torch->release(handle));
    CHECK(free_bytes() == before);
    OK(torch->release(create()));
    CHECK(free_bytes() == before);
    OK(torch->address_free(at, RANGE_BYTES));
}

/* Several mappings in one call; between them memory of the driver's own, as PyTorch imports it. */
static void rows(void) {
    CUmemAllocationProp plain = properties_of(CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle handles[3], real = 0;
    CUdeviceptr at = reserve();
    watch(0);
    for (unsigned i = 0; i < 3; i++)
        OK(torch->map(at + i * BIG_BYTES, BIG_BYTES, handles[i] = create()));
    OK(cuMemCreate(&real, PAGE_BYTES, &plain, 0));
    OK(torch->map(at + 3 * BIG_BYTES, PAGE_BYTES, real));
    OK(cuMemSetAccess(at + 3 * BIG_BYTES, PAGE_BYTES, &all_access, 1));
    OK(cuMemsetD8_v2(at + 3 * BIG_BYTES, 1, PAGE_BYTES));
    OK(cuCtxSynchronize());
    EXPECT(.held = PAGE_BYTES, .other = PAGE_BYTES);
    OK(torch->unmap(at + 3 * BIG_BYTES, PAGE_BYTES));
    OK(torch->release(real));
    UNCHANGED();
    OK(torch->unmap(at, 2 * BIG_BYTES));
    OK(torch->unmap(at + 2 * BIG_BYTES, BIG_BYTES));
    for (unsigned i = 0; i < 3; i++)
        OK(torch->release(handles[i]));
    OK(torch->address_free(at, RANGE_BYTES));
}

static void *without_context(void *argument) {
    CUcontext current = NULL;
    OK(torch->release(create()));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    return argument;
}

static void thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, without_context, NULL);
    pthread_join(thread, NULL);
}

static void child(void) {
    CUmemGenericAllocationHandle handle = create();
    CHECK(child_is_without(handle));
    OK(torch->release(handle));
}

static void reset(void) {
    CUmemGenericAllocationHandle handle = create();
    CUdeviceptr at = reserve();
    OK(torch->map(at, BIG_BYTES, handle));
    torch->block(at, PAGE_BYTES);
    OK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(torch->release(handle) == CUDA_ERROR_INVALID_VALUE);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(torch->map(at, BIG_BYTES, handle = create())); /* the addresses are reserved as before */
    torch->block(at, PAGE_BYTES);
    OK(cuMemsetD8_v2(at, 1, PAGE_BYTES));
    OK(cuCtxSynchronize());
    torch->block(at, -PAGE_BYTES);
    OK(torch->unmap(at, BIG_BYTES));
    OK(torch->release(handle));
    OK(torch->address_free(at, RANGE_BYTES));
}

static unsigned long long access_of(int device, CUdeviceptr at) {
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 0;
    OK(cuMemGetAccess(&flags, &location, at));
    return flags;
}

/* Another device is let in to what is mapped and to what will be. */
static void two_devices(void) {
    CUmemAccessDesc other = all_access;
    CUmemGenericAllocationHandle handle = create();
    CUdeviceptr at = reserve();
    OK(torch->map(at, BIG_BYTES, handle));
    OK(cuMemSetAccess(at, BIG_BYTES, &all_access, 1));
    torch->block(at, PAGE_BYTES);
    CHECK(access_of(1, at) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    other.location.id = 1;
    OK(cuMemSetAccess(at, BIG_BYTES, &other, 1));
    torch->block(at + PAGE_BYTES, PAGE_BYTES);
    CHECK(access_of(1, at) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(access_of(1, at + PAGE_BYTES) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    other.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    CHECK(cuMemSetAccess(at, BIG_BYTES, &other, 1) == CUDA_ERROR_NOT_SUPPORTED);
}

int main(int count, char **arguments) {
    torch = fake_allocator();
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(torch->release(create())); /* the engine opens */
    if (count > 1 && strcmp(arguments[1], "two") == 0) {
        two_devices();
        return check_result("vmm_calls");
    }
    kinds();
    mapping();
    free_memory();
    rows();
    thread();
    child();
    reset();
    return check_result("vmm_calls");
}

#endif
