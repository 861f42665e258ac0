/* The stream-ordered allocator of the simulated device: caching, order, attributes, release. */
#include "test_driver.h"

static CUmemoryPool default_pool(void) {
    CUmemoryPool pool;
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static size_t attribute(CUmemoryPool pool, CUmemPool_attribute which) {
    cuuint64_t value;
    ok(cuMemPoolGetAttribute(pool, which, &value));
    return (size_t)value;
}

#define reserved(pool) attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
#define used(pool)     attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)

static void set_threshold(CUmemoryPool pool, cuuint64_t bytes) {
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

static CUdeviceptr take(size_t bytes, CUstream stream) {
    CUdeviceptr pointer;
    ok(cuMemAllocAsync(&pointer, bytes, stream));
    return pointer;
}

static CUmemoryPool new_pool(void) {
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    ok(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUdeviceptr take_from(CUmemoryPool pool, size_t bytes, CUstream stream) {
    CUdeviceptr pointer;
    ok(cuMemAllocFromPoolAsync(&pointer, bytes, pool, stream));
    return pointer;
}

static void freed_memory_stays_until_a_wait(void **state) {
    (void)state;
    CUmemoryPool pool = default_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    size_t before = free_bytes();
    CUdeviceptr pointer = take(10 * MIB, stream);
    assert_int_equal(used(pool), 10 * MIB);
    assert_int_equal(reserved(pool), 32 * MIB);
    assert_int_equal(before - free_bytes(), 32 * MIB);
    ok(cuMemFreeAsync(pointer, stream));
    assert_int_equal(used(pool), 0);
    assert_int_equal(reserved(pool), 32 * MIB);
    ok(cuStreamSynchronize(stream));
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(before, free_bytes());
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 10 * MIB);
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * MIB);
    cuuint64_t zero = 0, one = 1;
    fails(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
}

static void the_threshold_keeps_memory(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointers[4];
    set_threshold(pool, 64 * MIB);
    for (int i = 0; i < 4; i++)
        pointers[i] = take_from(pool, 32 * MIB, stream);
    assert_int_equal(reserved(pool), 128 * MIB);
    for (int i = 0; i < 4; i++)
        ok(cuMemFreeAsync(pointers[i], stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(reserved(pool), 64 * MIB);
    ok(cuMemPoolTrimTo(pool, 40 * MIB)); /* At least so much stays. */
    assert_int_equal(reserved(pool), 64 * MIB);
    ok(cuMemPoolTrimTo(pool, 32 * MIB));
    assert_int_equal(reserved(pool), 32 * MIB);
    ok(cuMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 0);
    ok(cuMemPoolDestroy(pool));
}

static void trimming_spares_what_is_in_flight(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set_threshold(pool, UINT64_MAX);
    CUdeviceptr kept = take_from(pool, 32 * MIB, stream);
    CUdeviceptr freed = take_from(pool, 32 * MIB, stream);
    ok(cuMemFreeAsync(freed, stream));
    ok(cuMemPoolTrimTo(pool, 0)); /* The free has not run. */
    assert_int_equal(reserved(pool), 64 * MIB);
    ok(cuStreamSynchronize(stream));
    assert_int_equal(reserved(pool), 64 * MIB);
    ok(cuMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 32 * MIB);
    ok(cuMemFreeAsync(kept, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuMemPoolDestroy(pool));
}

static void a_stream_reuses_its_own_at_once(void **state) {
    (void)state;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr first = take(8 * MIB, stream);
    ok(simgpu_touch(stream, first, 16, 1));
    ok(cuMemFreeAsync(first, stream));
    CUdeviceptr second = take(8 * MIB, stream);
    assert_int_equal(first, second);
    ok(simgpu_touch(stream, second, 16, 2));
    ok(simgpu_expect(stream, second, 16, 2));
    ok(cuMemFreeAsync(second, stream));
    ok(cuStreamSynchronize(stream));
}

/* Memory that another stream has freed but not yet reached must not be handed out without order. */
static void another_stream_waits_for_the_free(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    set_threshold(pool, UINT64_MAX);
    ok(simgpu_hold(a));
    CUdeviceptr first = take_from(pool, 32 * MIB, a);
    ok(simgpu_touch(a, first, 16, 1));
    ok(cuMemFreeAsync(first, a));
    CUdeviceptr second = take_from(pool, 32 * MIB, b);
    assert_int_not_equal(first, second);
    ok(cuMemFreeAsync(second, b));
    ok(simgpu_release(a));
    ok(cuStreamSynchronize(a));
    ok(cuStreamSynchronize(b));
    CUdeviceptr one = take_from(pool, 32 * MIB, b), two = take_from(pool, 32 * MIB, b);
    assert_int_equal(reserved(pool), 64 * MIB); /* Both are reused: the frees have run. */
    ok(cuMemFreeAsync(one, b));
    ok(cuMemFreeAsync(two, b));
    ok(cuCtxSynchronize());
    ok(cuMemPoolDestroy(pool));
}

/* A stream that waits for an event behind the free may have the memory before the free has run. */
static void events_and_the_default_stream_give_order(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool();
    CUevent event;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr first = take_from(pool, 32 * MIB, a);
    ok(simgpu_touch(a, first, 16, 1));
    ok(cuEventRecord(event, a)); /* Before the free: no order. */
    ok(cuMemFreeAsync(first, a));
    ok(cuStreamWaitEvent(b, event, 0));
    CUdeviceptr second = take_from(pool, 32 * MIB, b);
    assert_int_not_equal(second, first);
    ok(cuMemFreeAsync(second, a));
    ok(cuEventRecord(event, a));
    ok(cuStreamWaitEvent(blocking, event, 0));
    CUdeviceptr third = take_from(pool, 32 * MIB, blocking);
    assert_true(third == first || third == second);
    ok(simgpu_touch(blocking, third, 16, 2));
    ok(simgpu_expect(blocking, third, 16, 2));
    ok(cuMemFreeAsync(third, blocking));
    CUdeviceptr fourth = take_from(pool, 32 * MIB, NULL);
    assert_int_equal(fourth, third);
    int off = 0;
    ok(cuMemFreeAsync(fourth, NULL));
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &off));
    assert_int_equal(reserved(pool), 64 * MIB);
    CUdeviceptr fifth = take_from(pool, 32 * MIB, blocking);
    assert_int_equal(reserved(pool), 96 * MIB);
    ok(cuMemFreeAsync(fifth, blocking));
    ok(cuCtxSynchronize());
    ok(cuMemPoolDestroy(pool));
}

/* When nothing else is left, the stream is made to wait for the other's free. */
static void the_last_memory_is_reused_with_a_dependency(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    size_t most = free_bytes();
    CUdeviceptr first = take_from(pool, most, a);
    ok(simgpu_touch(a, first, 16, 1));
    ok(cuMemFreeAsync(first, a));
    CUdeviceptr second = take_from(pool, most, b);
    assert_int_equal(first, second);
    ok(simgpu_touch(b, second, 16, 2));
    ok(cuStreamSynchronize(b)); /* Runs a's work first. */
    assert_int_equal(byte_at(second), 2);
    ok(cuMemFreeAsync(second, b));
    int off = 0;
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
    CUdeviceptr third;
    fails(cuMemAllocFromPoolAsync(&third, most, pool, a), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuCtxSynchronize());
    ok(cuMemPoolDestroy(pool));
}

static void plain_allocation_makes_pools_give_way(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set_threshold(pool, UINT64_MAX);
    CUdeviceptr pointer = take_from(pool, 512 * MIB, stream), plain;
    ok(cuMemFreeAsync(pointer, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(reserved(pool), 512 * MIB);
    ok(cuMemAlloc(&plain, 600 * MIB));
    assert_int_equal(reserved(pool), 0);
    ok(cuMemPoolDestroy(pool));
}

static void neighbours_merge(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr parts[32];
    set_threshold(pool, UINT64_MAX);
    for (int i = 0; i < 32; i++)
        parts[i] = take_from(pool, MIB, stream);
    assert_int_equal(reserved(pool), 32 * MIB);
    for (int i = 0; i < 32; i += 2)
        ok(cuMemFreeAsync(parts[i], stream));
    for (int i = 1; i < 32; i += 2)
        ok(cuMemFreeAsync(parts[i], stream));
    CUdeviceptr whole = take_from(pool, 32 * MIB, stream);
    assert_int_equal(reserved(pool), 32 * MIB);
    ok(cuMemFreeAsync(whole, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuMemPoolDestroy(pool));
}

static void use_after_free_is_reported(void **state) {
    (void)state;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer = take(MIB, stream);
    ok(cuMemFreeAsync(pointer, stream));
    fails(cuMemsetD8Async(pointer, 0, 16, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    expect_reports(3);
}

static void freeing_under_another_streams_work_is_reported(void **state) {
    (void)state;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer = take(MIB, a);
    ok(simgpu_touch(b, pointer, 16, 1));
    ok(cuMemFreeAsync(pointer, a)); /* b was not made to finish first. */
    ok(cuStreamSynchronize(a));
    expect_reports(1);
    cuStreamSynchronize(b);
    errors_wanted = simgpu_errors() - errors_at_start; /* b may find the page gone as well. */
    reset_device();
}

static void freeing_after_an_event_is_fine(void **state) {
    (void)state;
    CUevent event;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr pointer = take(MIB, a);
    ok(simgpu_touch(b, pointer, 16, 1));
    ok(cuEventRecord(event, b));
    ok(cuStreamWaitEvent(a, event, 0));
    ok(cuMemFreeAsync(pointer, a));
    ok(cuStreamSynchronize(a));
    ok(cuStreamSynchronize(b));
}

static void plain_free_takes_pool_memory(void **state) {
    (void)state;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer = take(MIB, stream);
    ok(cuMemFree(pointer));
    assert_int_equal(used(default_pool()), 0);
    pointer = take(MIB, stream);
    ok(simgpu_use(stream, pointer, 16, 1));
    ok(cuMemFree(pointer)); /* Documented not to wait, so the work is still queued. */
    expect_reports(1);
    ok(cuCtxSynchronize());
}

static void pools_are_chosen_and_destroyed(void **state) {
    (void)state;
    CUmemoryPool pool = new_pool(), seen;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuDeviceSetMemPool(0, pool));
    CUdeviceptr pointer = take(MIB, stream);
    assert_int_equal(used(pool), MIB);
    ok(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
    assert_ptr_equal(seen, pool);
    size_t before = free_bytes();
    ok(cuMemPoolDestroy(pool)); /* Its memory goes when the allocation has gone. */
    ok(cuDeviceGetMemPool(&seen, 0));
    assert_ptr_equal(seen, default_pool());
    assert_int_equal(free_bytes(), before);
    ok(cuMemFreeAsync(pointer, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(free_bytes() - before, 32 * MIB);
    fails(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolDestroy(default_pool()), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
}

static void reset_makes_pools_as_new(void **state) {
    (void)state;
    size_t before = free_bytes();
    CUmemoryPool pool = new_pool();
    set_threshold(default_pool(), UINT64_MAX);
    set_threshold(pool, UINT64_MAX);
    take(MIB, NULL);
    take_from(pool, MIB, NULL);
    assert_int_equal(before - free_bytes(), 64 * MIB);
    reset_device();
    assert_int_equal(free_bytes(), before);
    assert_int_equal(attribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
    fails(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
}

static void limits_are_kept(void **state) {
    (void)state;
    CUmemoryPool pool;
    CUdeviceptr pointer, more;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                            .maxSize = 48 * MIB};
    ok(cuMemPoolCreate(&pool, &props));
    ok(cuMemAllocFromPoolAsync(&pointer, 32 * MIB, pool, NULL));
    fails(cuMemAllocFromPoolAsync(&more, 20 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAllocFromPoolAsync(&more, 16 * MIB, pool, NULL));
    fails(cuMemAllocFromPoolAsync(&more, 0, pool, NULL), CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    const struct CMUnitTest tests[] = {
        device_test(freed_memory_stays_until_a_wait),
        device_test(the_threshold_keeps_memory),
        device_test(trimming_spares_what_is_in_flight),
        device_test(a_stream_reuses_its_own_at_once),
        device_test(another_stream_waits_for_the_free),
        device_test(events_and_the_default_stream_give_order),
        device_test(the_last_memory_is_reused_with_a_dependency),
        device_test(plain_allocation_makes_pools_give_way),
        device_test(neighbours_merge),
        device_test(use_after_free_is_reported),
        device_test(freeing_under_another_streams_work_is_reported),
        device_test(freeing_after_an_event_is_fine),
        device_test(plain_free_takes_pool_memory),
        device_test(pools_are_chosen_and_destroyed),
        device_test(reset_makes_pools_as_new),
        device_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
