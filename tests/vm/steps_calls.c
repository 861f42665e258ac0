/* steps_calls.c: mode flush, call by call: what PyTorch's allocator unmaps and releases stays for a
 * moment and serves it again, and nobody notices. The simulated device reports each handle that it
 * does not know, and each address where something is mapped still. The allocator is that of
 * vmm_calls.c. VRAMGC_COOLDOWN=60s keeps for seconds. */
#include "check.h"
#include "vmm_calls.h"

#include <unistd.h>

enum { SMALL_BYTES = 2 << 20, BYTES = 10 * SMALL_BYTES, RANGE_BYTES = 8 * BYTES };

static const struct allocator *torch;
static CUcontext primary;

static CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemAllocationProp wanted = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle handle = 0;
    OK(torch->create(&handle, bytes, &wanted));
    return handle;
}

static uint64_t reuses(void) {
    const struct vramgc_file *file = check_file();
    return file ? file->devices[0].stats.handle_reuses : 0;
}

static size_t free_bytes(void) {
    size_t free_bytes = 0, total_bytes = 0;
    OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    return free_bytes;
}

/* What is kept goes back: all of it is wanted, and it is not enough. */
static void drop(void) {
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc_v2(&p, (size_t)1 << 40) == CUDA_ERROR_OUT_OF_MEMORY);
}

static CUdeviceptr reserve(void) {
    CUdeviceptr at = 0;
    OK(torch->reserve(&at, RANGE_BYTES));
    return at;
}

static CUmemGenericAllocationHandle place(CUdeviceptr at, size_t bytes) {
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = create(bytes);
    OK(torch->map(at, bytes, handle));
    OK(cuMemSetAccess(at, bytes, &access, 1));
    return handle;
}

/* PyTorch waits for the GPU first. */
static void leave(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle) {
    OK(cuCtxSynchronize());
    OK(torch->unmap(at, bytes));
    OK(torch->release(handle));
}

static uint64_t calls(void) {
    const struct vramgc_file *file = check_file();
    return file ? file->devices[0].stats.driver_calls : 0;
}

/* The same memory serves the same addresses again; meanwhile it is held, and free for all who ask.
 */
static void again(void) {
    uint64_t before = reuses();
    CUdeviceptr at = reserve();
    size_t free_before = free_bytes();
    watch(0);
    CUmemGenericAllocationHandle handle = place(at, BYTES);
    CHECK(free_bytes() == free_before - BYTES);
    leave(at, BYTES, handle);
    EXPECT(.held = BYTES);
    CHECK(free_bytes() == free_before);
    CHECK(torch->release(handle) == CUDA_ERROR_INVALID_VALUE);
    uint64_t calls_before = calls();
    handle = place(at, BYTES);
    EXPECT(.held = BYTES);
    CHECK(free_bytes() == free_before - BYTES && calls() == calls_before);
    leave(at, BYTES, handle);
    handle = place(at + BYTES, BYTES); /* elsewhere it serves as well */
    EXPECT(.held = BYTES);
    leave(at + BYTES, BYTES, handle);
    CHECK(calls() == calls_before + 3); /* unmapped, mapped, opened */
    CHECK(reuses() == before + 2);
    drop();
    UNCHANGED();
    OK(torch->address_free(at, RANGE_BYTES));
}

/* Addresses that PyTorch frees come again, with what lies there. */
static void same_addresses(void) {
    CUdeviceptr at = reserve();
    CUmemGenericAllocationHandle handle = place(at, BYTES);
    leave(at, BYTES, handle);
    OK(torch->address_free(at, RANGE_BYTES));
    CHECK(reserve() == at);
    uint64_t before = calls();
    handle = place(at, BYTES);
    CHECK(calls() == before);
    leave(at, BYTES, handle);
    drop();
    OK(torch->address_free(at, RANGE_BYTES));
}

/* A step that lies where one of another pool is mapped gives way, and serves its handle elsewhere.
 */
static void in_the_way(void) {
    CUdeviceptr at = reserve();
    watch(0);
    CUmemGenericAllocationHandle handle = place(at, BYTES);
    OK(torch->unmap(at, BYTES));
    CUmemGenericAllocationHandle small = place(at + SMALL_BYTES, SMALL_BYTES);
    OK(torch->map(at + BYTES, BYTES, handle));
    leave(at + SMALL_BYTES, SMALL_BYTES, small);
    EXPECT(.held = BYTES + SMALL_BYTES);
    leave(at + BYTES, BYTES, handle);
    drop();
    UNCHANGED();
    OK(torch->address_free(at, RANGE_BYTES));
}

/* What does not fit goes back first: more is never held than PyTorch had. */
static void of_another_size(void) {
    watch(0);
    CUmemGenericAllocationHandle large = create(BYTES), small = create(SMALL_BYTES);
    OK(torch->release(large));
    EXPECT(.held = BYTES + SMALL_BYTES);
    CUmemGenericAllocationHandle other = create(SMALL_BYTES);
    EXPECT(.held = 2 * SMALL_BYTES);
    OK(torch->release(small));
    OK(torch->release(other));
    drop();
    UNCHANGED();
}

/* What a handle is promised serves nobody else, though it lies unmapped. */
static void promised(void) {
    CUdeviceptr at = reserve();
    watch(0);
    CUmemGenericAllocationHandle first = place(at, BYTES);
    OK(torch->unmap(at, BYTES)); /* it is not released */
    CUmemGenericAllocationHandle second = create(BYTES);
    EXPECT(.held = 2 * BYTES);
    drop();
    EXPECT(.held = 2 * BYTES);
    OK(torch->map(at, BYTES, first));
    OK(torch->map(at + BYTES, BYTES, second));
    EXPECT(.held = 2 * BYTES);
    OK(torch->release(first)); /* while it is mapped */
    OK(torch->unmap(at, BYTES));
    leave(at + BYTES, BYTES, second);
    drop();
    UNCHANGED();
    OK(torch->address_free(at, RANGE_BYTES));
}

/* What somebody else has made is his. */
static void of_others(void) {
    CUmemAllocationProp wanted = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle handle = 0;
    OK(torch->release(create(BYTES)));
    watch(0);
    OK(cuMemCreate(&handle, BYTES, &wanted, 0));
    EXPECT(.held = BYTES, .other = BYTES);
    OK(cuMemRelease(handle));
    UNCHANGED();
    drop();
}

/* 300 of the 512 MiB are kept: a request for 400 that is refused gets them. */
static void full(void) {
    enum { COUNT = 15 };
    CUmemGenericAllocationHandle handles[COUNT];
    CUdeviceptr p = 0;
    watch(0);
    for (int i = 0; i < COUNT; i++)
        handles[i] = create(BYTES);
    for (int i = 0; i < COUNT; i++)
        OK(torch->release(handles[i]));
    EXPECT(.held = COUNT * BYTES);
    OK(cuMemAlloc_v2(&p, 400 * MIB));
    OK(cuMemFree_v2(p));
    drop();
    UNCHANGED();
}

static void child(void) {
    CUmemGenericAllocationHandle handle = create(BYTES);
    CHECK(child_is_without(handle));
    OK(torch->release(handle));
}

static void reset(void) {
    CUmemGenericAllocationHandle handle = create(BYTES);
    OK(torch->release(handle));
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    watch(0);
    CUdeviceptr at = reserve();
    leave(at, BYTES, place(at, BYTES));
    EXPECT(.held = BYTES, .address = RANGE_BYTES);
    drop();
    EXPECT(.held = 0, .address = RANGE_BYTES);
    OK(torch->address_free(at, RANGE_BYTES));
}

/* Another process may have it from then on, and others by an address: the driver's own is shared,
 * and from then on nothing is kept. */
static void shared(bool by_address) {
    int fd = -1;
    CUdeviceptr at = reserve();
    CUmemGenericAllocationHandle handle = place(at, BYTES), retained = 0;
    watch(0);
    OK(torch->release(create(BYTES))); /* is kept */
    EXPECT(.held = BYTES);
    if (by_address) {
        OK(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)at));
        CHECK(retained != handle);
        OK(cuMemRelease(retained));
    } else {
        OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        close(fd);
    }
    EXPECT(.held = 0);
    leave(at, BYTES, handle);
    EXPECT(.held = -(int64_t)BYTES);
    OK(torch->address_free(at, RANGE_BYTES));
}

/* A PyTorch that makes its memory now so, now otherwise: the driver's own lies where steps were. */
static void not_alike(void) {
    CUmemAllocationProp other = properties_of(CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle plain = 0;
    CUdeviceptr at = reserve();
    leave(at, BYTES, place(at, BYTES));
    OK(torch->create(&plain, BYTES, &other));
    CHECK(plain >> 48 == 0); /* the driver's */
    OK(torch->map(at, BYTES, plain));
    leave(at, BYTES, plain);
    watch(0);
    leave(at, BYTES, place(at, BYTES));
    UNCHANGED();
    OK(torch->address_free(at, RANGE_BYTES));
}

int main(int argc, char **argv) {
    (void)argc;
    torch = fake_allocator();
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(torch->release(create(BYTES))); /* recording begins */
    drop();
    again();
    same_addresses();
    in_the_way();
    of_another_size();
    promised();
    of_others();
    full();
    child();
    reset();
    if (strcmp(argv[1], "alike") == 0)
        not_alike();
    else
        shared(strcmp(argv[1], "address") == 0);
    return check_result("steps_calls");
}
