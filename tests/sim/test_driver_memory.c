/* Allocation, accounting, pointers and copies on the simulated device. */
#include "test_driver.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void context_takes_its_share(void **state) {
    (void)state;
    size_t total;
    ok(cuDeviceTotalMem(&total, 0));
    assert_int_equal(total, 1024 * MIB);
    assert_int_equal(free_bytes(), (1024 - 256) * MIB);
    assert_int_equal(simgpu_used_bytes(0), 256 * MIB);
    assert_int_equal(simgpu_used_bytes(1), 0);
    ok(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(simgpu_used_bytes(0), 0);
    unsigned flags;
    int active;
    ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    fails(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    new_context();
}

static void large_blocks_take_whole_pages(void **state) {
    (void)state;
    CUdeviceptr pointer;
    size_t before = free_bytes();
    ok(cuMemAlloc(&pointer, 3 * MIB));
    assert_int_equal(before - free_bytes(), 4 * MIB);
    assert_int_equal(simgpu_used_bytes(0), (256 + 4) * MIB);
    assert_int_equal(pointer % (2 * MIB), 0);
    ok(cuMemFree(pointer));
    assert_int_equal(before, free_bytes());
    assert_int_equal(simgpu_most_used_bytes(0), (256 + 4) * MIB);
    assert_int_equal(simgpu_most_used_bytes(0), 256 * MIB);
}

static void small_blocks_share_a_page(void **state) {
    (void)state;
    CUdeviceptr pointers[1000];
    size_t before = free_bytes();
    for (int i = 0; i < 1000; i++) {
        ok(cuMemAlloc(&pointers[i], 700));
        assert_int_equal(pointers[i] % 512, 0);
    }
    assert_int_equal(before - free_bytes(), 2 * MIB);
    for (int i = 1; i < 1000; i++)
        ok(cuMemFree(pointers[i]));
    assert_int_equal(before - free_bytes(), 2 * MIB);
    ok(cuMemFree(pointers[0]));
    assert_int_equal(before, free_bytes());
}

static void memory_runs_out_exactly(void **state) {
    (void)state;
    CUdeviceptr pointer, more;
    size_t all = free_bytes();
    fails(cuMemAlloc(&pointer, all + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAlloc(&pointer, all));
    fails(cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemAlloc(&more, SIZE_MAX - 5), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemFree(pointer));
    assert_int_equal(all, free_bytes());
}

static void wrong_frees_are_reported(void **state) {
    (void)state;
    CUdeviceptr pointer;
    ok(cuMemFree(0));
    ok(cuMemAlloc(&pointer, 4 * MIB));
    fails(cuMemFree(pointer + 512), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFree(pointer));
    fails(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFree(0x1234), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeHost((void *)pointer), CUDA_ERROR_INVALID_VALUE);
    expect_reports(4);
}

static void copies_keep_content_over_page_borders(void **state) {
    (void)state;
    enum { BYTES = 5 << 20 };
    unsigned char *out = malloc(BYTES), *back = calloc(1, BYTES);
    CUdeviceptr a, b;
    for (int i = 0; i < BYTES; i++)
        out[i] = (unsigned char)(i * 7 + (i >> 12));
    ok(cuMemAlloc(&a, BYTES + 100));
    ok(cuMemAlloc(&b, BYTES));
    ok(cuMemcpyHtoD(a + 100, out, BYTES));
    ok(cuMemcpyDtoD(b, a + 100, BYTES));
    ok(cuMemcpyDtoH(back, b, BYTES));
    assert_memory_equal(out, back, BYTES);
    free(out);
    free(back);
}

static void freed_pages_come_back_empty(void **state) {
    (void)state;
    CUdeviceptr pointer;
    ok(cuMemAlloc(&pointer, 2 * MIB));
    ok(cuMemsetD8(pointer, 5, 2 * MIB));
    assert_int_equal(byte_at(pointer), 5);
    ok(cuMemFree(pointer));
    ok(cuMemAlloc(&pointer, 2 * MIB));
    assert_int_equal(byte_at(pointer), 0);
}

static void fills_have_every_width(void **state) {
    (void)state;
    CUdeviceptr pointer;
    uint32_t words[4];
    ok(cuMemAlloc(&pointer, 4096));
    ok(cuMemsetD32(pointer, 0x01020304, 4));
    ok(cuMemsetD16(pointer + 4, 0xabcd, 2));
    ok(cuMemsetD8(pointer + 8, 9, 4));
    ok(cuMemcpyDtoH(words, pointer, sizeof words));
    assert_int_equal(words[0], 0x01020304);
    assert_int_equal(words[1], 0xabcdabcd);
    assert_int_equal(words[2], 0x09090909);
    assert_int_equal(words[3], 0x01020304);
    fails(cuMemsetD32(pointer + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

static void rows_and_boxes_are_copied(void **state) {
    (void)state;
    unsigned char host[16][32], back[4][8];
    CUdeviceptr pointer;
    size_t pitch;
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 32; x++)
            host[y][x] = (unsigned char)(y * 16 + x);
    ok(cuMemAllocPitch(&pointer, &pitch, 32, 16, 4));
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcPitch = 32,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = pointer,
                        .dstPitch = pitch,
                        .WidthInBytes = 32,
                        .Height = 16};
    ok(cuMemcpy2D(&in));
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = pointer,
                         .srcPitch = pitch,
                         .srcXInBytes = 3,
                         .srcY = 2,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = back,
                         .dstPitch = 8,
                         .WidthInBytes = 8,
                         .Height = 4};
    ok(cuMemcpy2D(&out));
    for (int y = 0; y < 4; y++)
        assert_memory_equal(back[y], &host[y + 2][3], 8);
}

static void arrays_are_accounted_and_copied(void **state) {
    (void)state;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR want = {1024, 1024, CU_AD_FORMAT_FLOAT, 1}, have;
    size_t before = free_bytes();
    ok(cuArrayCreate(&array, &want));
    assert_int_equal(before - free_bytes(), 4 * MIB);
    ok(cuArrayGetDescriptor(&have, array));
    assert_int_equal(have.Width, 1024);
    float row[1024], back[1024];
    for (int i = 0; i < 1024; i++)
        row[i] = (float)i;
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = row,
                        .srcPitch = sizeof row,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = array,
                        .dstY = 7,
                        .WidthInBytes = sizeof row,
                        .Height = 1};
    ok(cuMemcpy2D(&in));
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                         .srcArray = array,
                         .srcY = 7,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = back,
                         .dstPitch = sizeof back,
                         .WidthInBytes = sizeof back,
                         .Height = 1};
    ok(cuMemcpy2D(&out));
    assert_memory_equal(row, back, sizeof row);
    ok(cuArrayDestroy(array));
    assert_int_equal(before, free_bytes());
    fails(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    expect_reports(1);
}

static void copies_out_of_bounds_are_refused(void **state) {
    (void)state;
    CUdeviceptr pointer;
    char host[600] = {0};
    ok(cuMemAlloc(&pointer, 512));
    fails(cuMemcpyHtoD(pointer, host, 513), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD8(pointer + 500, 0, 13), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyDtoH(host, pointer - 1, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemcpyHtoD(pointer, host, 512));
    ok(cuMemFree(pointer));
    fails(cuMemcpyHtoD(pointer, host, 1), CUDA_ERROR_INVALID_VALUE);
    expect_reports(4);
}

/* The CPU can't read device memory on a card either. */
static void device_memory_is_not_the_cpus(void **state) {
    (void)state;
    CUdeviceptr pointer;
    ok(cuMemAlloc(&pointer, 4 * MIB));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* Not cmocka's handler. */
        _exit(*(volatile char *)pointer);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
}

static void pointers_are_described(void **state) {
    (void)state;
    CUdeviceptr device, managed, start;
    void *host;
    unsigned type, is_managed;
    size_t size;
    ok(cuMemAlloc(&device, 5 * MIB));
    ok(cuMemAllocManaged(&managed, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemHostAlloc(&host, 4096, 0));
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 77));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    ok(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    assert_int_equal(is_managed, 1);
    ok(cuMemGetAddressRange(&start, &size, device + MIB));
    assert_int_equal(start, device);
    assert_int_equal(size, 5 * MIB);
    int stack;
    fails(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&stack),
          CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    int ordinal = 5;
    void *data[] = {&type, &ordinal};
    ok(cuPointerGetAttributes(2, list, data, (CUdeviceptr)&stack));
    assert_int_equal(type, 0);
    assert_int_equal(ordinal, -2);
}

static void host_memory_is_pinned_and_registered(void **state) {
    (void)state;
    void *host;
    char own[8192];
    unsigned flags;
    CUdeviceptr seen;
    ok(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE));
    memset(host, 1, 4096);
    ok(cuMemHostGetFlags(&flags, host));
    assert_true(flags & CU_MEMHOSTALLOC_PORTABLE);
    ok(cuMemHostGetDevicePointer(&seen, host, 0));
    assert_int_equal(seen, (CUdeviceptr)host);
    ok(cuMemHostRegister(own, sizeof own, 0));
    fails(cuMemHostRegister(own + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok(cuMemHostUnregister(own));
    fails(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    ok(cuMemFreeHost(host));
    fails(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
}

static void reset_sweeps_everything(void **state) {
    (void)state;
    CUdeviceptr pointer, base;
    size_t before = free_bytes();
    ok(cuMemAlloc(&pointer, 100 * MIB));
    ok(cuMemAllocAsync(&pointer, 50 * MIB, NULL));
    ok(cuMemAddressReserve(&base, 4 * MIB, 0, 0, 0));
    map_all(base, 4 * MIB, new_handle(4 * MIB));
    new_handle(6 * MIB); /* Mapped nowhere. */
    CUstream stream = new_stream(0);
    reset_device();
    assert_int_equal(free_bytes(), before);
    fails(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    expect_reports(2);
    ok(cuMemAddressFree(base, 4 * MIB));
}

static void reset_forgets_who_retained(void **state) {
    (void)state;
    CUcontext context;
    unsigned flags;
    int active;
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuDevicePrimaryCtxReset(0));
    fails(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuDevicePrimaryCtxRelease(0));
    ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    new_context();
}

static void contexts_stack_up(void **state) {
    (void)state;
    CUcontext primary, second, seen;
    size_t before = free_bytes();
    ok(cuCtxGetCurrent(&primary));
    ok(cuCtxCreate(&second, NULL, 0, 0));
    ok(cuCtxGetCurrent(&seen));
    assert_ptr_equal(seen, second);
    assert_int_equal(before - free_bytes(), 256 * MIB);
    CUdeviceptr pointer;
    ok(cuMemAlloc(&pointer, 8 * MIB));
    ok(cuCtxDestroy(second));
    ok(cuCtxGetCurrent(&seen));
    assert_ptr_equal(seen, primary);
    assert_int_equal(free_bytes(), before);
    fails(cuCtxDestroy(second), CUDA_ERROR_INVALID_CONTEXT);
    expect_reports(1);
    ok(cuCtxPopCurrent(&seen));
    fails(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuCtxPushCurrent(primary));
}

static void a_forked_child_has_no_device(void **state) {
    (void)state;
    CUdeviceptr pointer;
    ok(cuMemAlloc(&pointer, 2 * MIB));
    pid_t child = fork();
    if (child == 0) {
        int wrong = cuInit(0) != CUDA_ERROR_NOT_INITIALIZED;
        wrong += cuMemFree(pointer) != CUDA_ERROR_NOT_INITIALIZED;
        wrong += cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED;
        wrong += simgpu_used_bytes(0) != 0;
        _exit(wrong);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    ok(cuMemFree(pointer));
}

static void a_child_of_a_fresh_process_has_one(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(cuInit(0) != CUDA_SUCCESS);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

int main(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_a_fresh_process_has_one), /* First: CUDA is not in use. */
        device_test(context_takes_its_share),
        device_test(large_blocks_take_whole_pages),
        device_test(small_blocks_share_a_page),
        device_test(memory_runs_out_exactly),
        device_test(wrong_frees_are_reported),
        device_test(copies_keep_content_over_page_borders),
        device_test(freed_pages_come_back_empty),
        device_test(fills_have_every_width),
        device_test(rows_and_boxes_are_copied),
        device_test(arrays_are_accounted_and_copied),
        device_test(copies_out_of_bounds_are_refused),
        device_test(device_memory_is_not_the_cpus),
        device_test(pointers_are_described),
        device_test(host_memory_is_pinned_and_registered),
        device_test(reset_sweeps_everything),
        device_test(reset_forgets_who_retained),
        device_test(contexts_stack_up),
        device_test(a_forked_child_has_no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
