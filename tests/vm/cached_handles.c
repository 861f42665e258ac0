/* cached_handles.c: mode flush, call by call: which handles of PyTorch's allocator are cached when
 * they are released, and that nobody notices. The simulated device reports each handle that it does
 * not know. The allocator is that of vmm_calls.c. VRAMGC_TEST_REST=60s caches for seconds. */
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

/* Takes what is cached and has the driver have it: what is larger than all is wanted, and one that
 * nobody caches. */
static void drop(void) {
    CUmemAllocationProp wanted = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle handle = 0;
    CHECK(torch->create(&handle, (size_t)1 << 50, &wanted) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* The same memory serves again; meanwhile it is held, and free for all who ask. */
static void again(void) {
    uint64_t before = reuses();
    size_t free_before = free_bytes();
    watch(0);
    CUmemGenericAllocationHandle first = create(BYTES);
    CHECK(free_bytes() == free_before - BYTES);
    OK(torch->release(first));
    EXPECT(.held = BYTES);
    CHECK(free_bytes() == free_before);
    CHECK(torch->release(first) == CUDA_ERROR_INVALID_VALUE);
    CHECK(create(BYTES) == first);
    EXPECT(.held = BYTES);
    CHECK(free_bytes() == free_before - BYTES && reuses() == before + 1);
    OK(torch->release(first));
    drop();
    UNCHANGED();
}

/* What does not fit goes back first: more is never held than PyTorch had. */
static void of_another_size(void) {
    watch(0);
    CUmemGenericAllocationHandle large = create(BYTES), small = create(SMALL_BYTES);
    OK(torch->release(large));
    EXPECT(.held = BYTES + SMALL_BYTES);
    CUmemGenericAllocationHandle other = create(SMALL_BYTES);
    CHECK(other != large && other != small);
    EXPECT(.held = 2 * SMALL_BYTES);
    OK(torch->release(small));
    OK(torch->release(other));
    CHECK(create(SMALL_BYTES) == other && create(SMALL_BYTES) == small); /* the latest first */
    OK(torch->release(small));
    OK(torch->release(other));
    drop();
    UNCHANGED();
}

/* Others may use it on: another process, who has it by an address, who maps it still. */
static void not_alone(void) {
    int fd = -1;
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle handle = create(BYTES), retained = 0;
    watch(0);
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(torch->release(handle));
    EXPECT(.held = -(int64_t)BYTES);
    close(fd);
    handle = create(BYTES);
    OK(torch->reserve(&at, RANGE_BYTES));
    OK(torch->map(at, BYTES, handle));
    OK(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)at));
    OK(torch->release(handle));
    OK(torch->release(retained)); /* mapped still */
    CHECK(create(BYTES) != handle);
    OK(torch->unmap(at, BYTES));
    EXPECT(.held = 0, .address = RANGE_BYTES);
    OK(torch->address_free(at, RANGE_BYTES));
}

/* What somebody else has made is his. */
static void of_others(void) {
    CUmemAllocationProp wanted = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle handle = 0, cached = create(BYTES);
    OK(torch->release(cached));
    watch(0);
    OK(cuMemCreate(&handle, BYTES, &wanted, 0));
    CHECK(handle != cached);
    EXPECT(.held = BYTES, .other = BYTES);
    OK(cuMemRelease(handle));
    UNCHANGED();
    drop();
}

/* 300 of the 512 MiB are cached: a request for 400 that is refused gets them. */
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
    uint64_t before = reuses();
    OK(torch->release(handle));
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(torch->release(create(BYTES)));
    CHECK(reuses() == before);
}

/* A PyTorch that makes its memory now so, now otherwise: nothing is cached any more. */
static void not_alike(void) {
    CUmemAllocationProp other = properties_of(CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle handle = create(BYTES), plain = 0;
    uint64_t before = reuses();
    OK(torch->release(handle));
    OK(torch->create(&plain, BYTES, &other));
    CHECK(plain != handle);
    OK(torch->release(plain));
    OK(torch->release(create(BYTES)));
    CHECK(reuses() == before);
}

int main(void) {
    torch = fake_allocator();
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(torch->release(create(BYTES))); /* recording begins */
    drop();
    again();
    of_another_size();
    not_alone();
    of_others();
    full();
    child();
    reset();
    not_alike();
    return check_result("cached_handles");
}
