/* Reservations, handles and mappings on the simulated device, and what it says to their misuse. */
#include "test_driver.h"

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr base;
    ok(cuMemAddressReserve(&base, bytes, 0, 0, 0));
    return base;
}

static void handles_take_memory_and_addresses_do_not(void **state) {
    (void)state;
    size_t before = free_bytes();
    CUdeviceptr base = reserve((size_t)1 << 40);
    assert_int_equal(free_bytes(), before);
    CUmemGenericAllocationHandle handle = new_handle(10 * MIB);
    assert_int_equal(before - free_bytes(), 10 * MIB);
    map_all(base, 10 * MIB, handle);
    ok(cuMemRelease(handle)); /* The mapping keeps the memory. */
    assert_int_equal(before - free_bytes(), 10 * MIB);
    ok(cuMemUnmap(base, 10 * MIB));
    assert_int_equal(before, free_bytes());
    ok(cuMemAddressFree(base, (size_t)1 << 40));
}

static void content_follows_the_handle(void **state) {
    (void)state;
    CUdeviceptr base = reserve(64 * MIB);
    CUmemGenericAllocationHandle handle = new_handle(4 * MIB);
    map_all(base, 4 * MIB, handle);
    ok(cuMemsetD8(base, 0x5a, 4 * MIB));
    ok(cuCtxSynchronize());
    ok(cuMemUnmap(base, 4 * MIB));
    map_all(base + 32 * MIB, 4 * MIB, handle);
    ok(simgpu_expect(NULL, base + 32 * MIB, 4 * MIB, 0x5a));
    ok(cuCtxSynchronize());
    ok(cuMemUnmap(base + 32 * MIB, 4 * MIB));
    ok(cuMemRelease(handle));
    ok(cuMemAddressFree(base, 64 * MIB));
}

static void one_handle_can_be_seen_twice(void **state) {
    (void)state;
    CUdeviceptr base = reserve(8 * MIB);
    CUmemGenericAllocationHandle handle = new_handle(2 * MIB), again;
    map_all(base, 2 * MIB, handle);
    map_all(base + 6 * MIB, 2 * MIB, handle);
    ok(cuMemsetD8(base, 3, 2 * MIB));
    assert_int_equal(byte_at(base + 6 * MIB), 3);
    ok(cuMemRetainAllocationHandle(&again, (void *)(base + 6 * MIB + 17)));
    assert_int_equal(again, handle);
    ok(cuMemRelease(again));
    ok(cuMemRelease(handle));
    ok(cuMemUnmap(base, 2 * MIB));
    ok(cuMemUnmap(base + 6 * MIB, 2 * MIB));
    ok(cuMemAddressFree(base, 8 * MIB));
}

static void ranges_cover_neighbouring_mappings(void **state) {
    (void)state;
    CUdeviceptr base = reserve(8 * MIB);
    CUmemAccessDesc access = full_access();
    for (size_t at = 0; at < 8 * MIB; at += 2 * MIB) {
        CUmemGenericAllocationHandle handle = new_handle(2 * MIB);
        ok(cuMemMap(base + at, 2 * MIB, 0, handle, 0));
        ok(cuMemRelease(handle));
    }
    ok(cuMemSetAccess(base, 8 * MIB, &access, 1));
    ok(cuMemsetD8(base + MIB, 1, 6 * MIB));
    ok(cuMemcpyDtoD(base + 2 * MIB - 3, base + 4 * MIB - 5, 3 * MIB));
    ok(cuCtxSynchronize());
    ok(cuMemUnmap(base + 2 * MIB, 4 * MIB)); /* Two whole mappings. */
    fails(cuMemsetD8(base + MIB, 1, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
    ok(cuMemUnmap(base, 2 * MIB));
    ok(cuMemUnmap(base + 6 * MIB, 2 * MIB));
    ok(cuMemAddressFree(base, 8 * MIB));
}

static void mappings_start_without_access(void **state) {
    (void)state;
    CUdeviceptr base = reserve(2 * MIB);
    CUmemAccessDesc access = full_access();
    unsigned long long flags;
    ok(cuMemMap(base, 2 * MIB, 0, new_handle(2 * MIB), 0));
    ok(cuMemGetAccess(&flags, &access.location, base));
    assert_int_equal(flags, 0);
    ok(simgpu_use(NULL, base, 16, 0));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_reports(1);
    reset_device();
    ok(cuMemAddressFree(base, 2 * MIB));
}

static void read_only_mappings_can_be_read(void **state) {
    (void)state;
    CUdeviceptr base = reserve(2 * MIB);
    CUmemAccessDesc access = full_access();
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    ok(cuMemMap(base, 2 * MIB, 0, new_handle(2 * MIB), 0));
    ok(cuMemSetAccess(base, 2 * MIB, &access, 1));
    ok(simgpu_use(NULL, base, 16, 0));
    ok(cuCtxSynchronize());
    ok(simgpu_use(NULL, base, 16, 1));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_reports(1);
    reset_device();
    ok(cuMemAddressFree(base, 2 * MIB));
}

static void unmapping_under_queued_work_is_found_twice(void **state) {
    (void)state;
    CUdeviceptr base = reserve(4 * MIB);
    CUmemGenericAllocationHandle handle = new_handle(4 * MIB);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    map_all(base, 4 * MIB, handle);
    ok(simgpu_touch(stream, base + MIB, 16, 1));
    ok(cuMemUnmap(base, 4 * MIB)); /* As on a card the call itself succeeds. */
    expect_reports(1);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_reports(1);
    reset_device();
}

static void unmapping_after_an_event_is_fine(void **state) {
    (void)state;
    CUdeviceptr base = reserve(4 * MIB);
    CUmemGenericAllocationHandle handle = new_handle(4 * MIB);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    map_all(base, 4 * MIB, handle);
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(simgpu_touch(stream, base, 16, 1));
    ok(cuEventRecord(event, stream));
    launch(any_kernel(), stream); /* Later work that does not use the range. */
    ok(cuEventSynchronize(event));
    ok(cuMemUnmap(base, 4 * MIB));
    ok(cuMemRelease(handle));
    ok(cuMemAddressFree(base, 4 * MIB));
}

static void taking_access_away_under_queued_work_is_reported(void **state) {
    (void)state;
    CUdeviceptr base = reserve(2 * MIB);
    CUmemAccessDesc access = full_access();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    map_all(base, 2 * MIB, new_handle(2 * MIB));
    ok(simgpu_use(stream, base, 16, 0));
    ok(cuMemSetAccess(base, 2 * MIB, &access, 1)); /* Grants what is there already. */
    expect_reports(0);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    ok(cuMemSetAccess(base, 2 * MIB, &access, 1));
    expect_reports(1);
    ok(cuStreamSynchronize(stream)); /* It only reads. */
}

static void maps_have_to_fit(void **state) {
    (void)state;
    CUdeviceptr base = reserve(8 * MIB), plain;
    CUmemGenericAllocationHandle handle = new_handle(4 * MIB);
    ok(cuMemAlloc(&plain, 4 * MIB));
    fails(cuMemMap(base, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(base, 4 * MIB, 2 * MIB, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(base + MIB, 4 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(base + 6 * MIB, 4 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(plain, 4 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(base, 4 * MIB, 0, handle + 16, 0), CUDA_ERROR_INVALID_VALUE);
    expect_reports(6);
    map_all(base, 4 * MIB, handle);
    fails(cuMemMap(base + 2 * MIB, 4 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
    fails(cuMemAddressFree(base, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFree(base), CUDA_ERROR_INVALID_VALUE);
    expect_reports(2);
    ok(cuMemUnmap(base, 4 * MIB));
    ok(cuMemAddressFree(base, 8 * MIB));
}

static void unmaps_have_to_match(void **state) {
    (void)state;
    CUdeviceptr base = reserve(8 * MIB);
    map_all(base, 4 * MIB, new_handle(4 * MIB));
    fails(cuMemUnmap(base, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(base + 2 * MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(base, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(base + 4 * MIB, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(base + 2 * MIB, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    expect_reports(5);
    ok(cuMemUnmap(base, 4 * MIB));
    fails(cuMemUnmap(base, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressFree(base, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressFree(base + 4 * MIB, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    expect_reports(3);
    ok(cuMemAddressFree(base, 8 * MIB));
    fails(cuMemAddressFree(base, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
}

static void handles_are_released_once(void **state) {
    (void)state;
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = new_handle(2 * MIB), next;
    ok(cuMemRelease(handle));
    assert_int_equal(before, free_bytes());
    next = new_handle(2 * MIB);
    assert_int_not_equal(handle, next);
    fails(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
    expect_reports(2);
    ok(cuMemRelease(next));
}

/* A handle that is released while mapped is gone for the program, though its memory is not. */
static void a_released_handle_is_not_mapped_again(void **state) {
    (void)state;
    CUdeviceptr base = reserve(4 * MIB);
    CUmemGenericAllocationHandle handle = new_handle(2 * MIB);
    map_all(base, 2 * MIB, handle);
    ok(cuMemRelease(handle));
    fails(cuMemMap(base + 2 * MIB, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    expect_reports(2);
    ok(cuMemUnmap(base, 2 * MIB));
    ok(cuMemAddressFree(base, 4 * MIB));
}

static void sizes_and_properties_are_checked(void **state) {
    (void)state;
    CUdeviceptr base;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop();
    size_t granularity;
    ok(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(granularity, 2 * MIB);
    fails(cuMemCreate(&handle, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemCreate(&handle, 2048 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemAddressReserve(&base, 2 * MIB, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressReserve(&base, 100, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    prop.location.id = 9;
    fails(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    prop = device_prop();
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    fails(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    prop = device_prop();
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    ok(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    ok(cuMemRelease(handle));
}

static void reservations_keep_alignment_and_hints(void **state) {
    (void)state;
    CUdeviceptr base, hinted;
    ok(cuMemAddressReserve(&base, 2 * MIB, 1024 * MIB, 0, 0));
    assert_int_equal(base % (1024 * MIB), 0);
    ok(cuMemAddressFree(base, 2 * MIB));
    CUdeviceptr large = reserve(64 * MIB);
    ok(cuMemAddressFree(large, 64 * MIB));
    ok(cuMemAddressReserve(&hinted, 4 * MIB, 0, large + 32 * MIB, 0));
    assert_int_equal(hinted, large + 32 * MIB);
    ok(cuMemAddressReserve(&base, 4 * MIB, 0, large + 32 * MIB, 0)); /* Taken: elsewhere. */
    assert_int_not_equal(base, hinted);
    ok(cuMemAddressFree(base, 4 * MIB));
    ok(cuMemAddressFree(hinted, 4 * MIB));
}

/* Addresses that were given back are used again, so that stale pointers hit something. */
static void addresses_come_back(void **state) {
    (void)state;
    CUdeviceptr first = reserve(16 * MIB);
    ok(cuMemAddressFree(first, 16 * MIB));
    CUdeviceptr second = reserve(16 * MIB);
    assert_int_equal(first, second);
    ok(cuMemAddressFree(second, 16 * MIB));
}

static void many_mappings_stay_fast(void **state) {
    (void)state;
    enum { PAGES = 300 };
    CUmemGenericAllocationHandle handles[PAGES];
    CUdeviceptr base = reserve(PAGES * 2 * MIB);
    for (int i = 0; i < PAGES; i++)
        handles[i] = new_handle(2 * MIB);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < PAGES; i++)
            map_all(base + (size_t)((i * 7 + round) % PAGES) * 2 * MIB, 2 * MIB, handles[i]);
        ok(simgpu_use(NULL, base, PAGES * 2 * MIB, 1));
        ok(cuCtxSynchronize());
        ok(cuMemUnmap(base, PAGES * 2 * MIB));
    }
    for (int i = 0; i < PAGES; i++)
        ok(cuMemRelease(handles[i]));
    ok(cuMemAddressFree(base, PAGES * 2 * MIB));
}

int main(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    const struct CMUnitTest tests[] = {
        device_test(handles_take_memory_and_addresses_do_not),
        device_test(content_follows_the_handle),
        device_test(one_handle_can_be_seen_twice),
        device_test(ranges_cover_neighbouring_mappings),
        device_test(mappings_start_without_access),
        device_test(read_only_mappings_can_be_read),
        device_test(unmapping_under_queued_work_is_found_twice),
        device_test(unmapping_after_an_event_is_fine),
        device_test(taking_access_away_under_queued_work_is_reported),
        device_test(maps_have_to_fit),
        device_test(unmaps_have_to_match),
        device_test(handles_are_released_once),
        device_test(a_released_handle_is_not_mapped_again),
        device_test(sizes_and_properties_are_checked),
        device_test(reservations_keep_alignment_and_hints),
        device_test(addresses_come_back),
        device_test(many_mappings_stay_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
