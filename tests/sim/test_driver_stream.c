/* Streams, events and late execution on the simulated device. */
#include "test_driver.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* Work queued behind nothing is still pending until somebody waits. */
static void work_is_pending_until_waited_for(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&pointer, 4096));
    ok(simgpu_touch(stream, pointer, 4096, 7));
    assert_int_equal(simgpu_pending(), 1);
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(byte_at(pointer), 0); /* A copy in another stream overtakes it. */
    ok(cuStreamSynchronize(stream));
    assert_int_equal(simgpu_pending(), 0);
    assert_int_equal(byte_at(pointer), 7);
}

static void asking_twice_makes_progress(void **state) {
    (void)state;
    CUevent event;
    CUstream stream = new_stream(0);
    ok(cuEventCreate(&event, 0));
    ok(cuEventQuery(event)); /* Never recorded. */
    ok(cuEventRecord(event, stream));
    fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ok(cuEventQuery(event));
    launch(any_kernel(), stream);
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    ok(cuStreamQuery(stream));
}

static void a_held_stream_stays_pending(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    ok(cuEventCreate(&event, 0));
    ok(cuMemAlloc(&pointer, 4096));
    ok(simgpu_hold(stream));
    ok(simgpu_touch(stream, pointer, 16, 1));
    ok(cuEventRecord(event, stream));
    ok(cuStreamWaitEvent(other, event, 0));
    ok(simgpu_expect(other, pointer, 16, 1));
    for (int i = 0; i < 5; i++) {
        fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        fails(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    }
    ok(simgpu_release(stream));
    ok(cuStreamSynchronize(other));
    ok(cuEventQuery(event));
}

/* One event for all streams of a context; work that is submitted later is none of it. */
static void a_context_event_covers_every_stream(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUcontext context, second;
    CUevent event, foreign;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuCtxGetCurrent(&context));
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuMemAlloc(&pointer, 4096));
    ok(simgpu_hold(stream));
    ok(simgpu_touch(stream, pointer, 16, 1));
    ok(cuCtxRecordEvent(context, event));
    ok(simgpu_hold(other));
    ok(simgpu_touch(other, pointer, 16, 2));
    for (int i = 0; i < 5; i++)
        fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ok(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
    ok(simgpu_release(stream));
    ok(cuEventSynchronize(event));
    ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    assert_int_equal(simgpu_pending(), 1);
    ok(cuCtxRecordEvent(context, event));
    ok(cuStreamDestroy(other)); /* Its work counts still. */
    ok(cuEventSynchronize(event));
    assert_int_equal(simgpu_pending(), 0);
    ok(cuCtxCreate(&second, NULL, 0, 0));
    ok(cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
    fails(cuCtxRecordEvent(context, foreign), CUDA_ERROR_INVALID_HANDLE);
    ok(cuEventDestroy(foreign));
    ok(cuCtxDestroy(second));
    ok(cuCtxSetCurrent(context));
}

struct releaser {
    CUcontext context;
    CUstream stream;
};

static void *release_in_context(void *data) {
    struct releaser *releaser = data;
    ok(cuCtxSetCurrent(releaser->context));
    usleep(30000);
    ok(simgpu_release(releaser->stream));
    return NULL;
}

static void a_wait_ends_when_the_hold_ends(void **state) {
    (void)state;
    pthread_t thread;
    struct releaser releaser = {.stream = new_stream(CU_STREAM_NON_BLOCKING)};
    ok(cuCtxGetCurrent(&releaser.context));
    ok(simgpu_hold(releaser.stream));
    launch(any_kernel(), releaser.stream);
    assert_int_equal(pthread_create(&thread, NULL, release_in_context, &releaser), 0);
    ok(cuStreamSynchronize(releaser.stream));
    pthread_join(thread, NULL);
}

static void free_waits_for_the_device(void **state) {
    (void)state;
    pthread_t thread;
    CUdeviceptr pointer;
    struct releaser releaser = {.stream = new_stream(CU_STREAM_NON_BLOCKING)};
    ok(cuCtxGetCurrent(&releaser.context));
    ok(cuMemAlloc(&pointer, 4 * MIB));
    ok(simgpu_hold(releaser.stream));
    ok(simgpu_touch(releaser.stream, pointer, 4 * MIB, 1));
    assert_int_equal(pthread_create(&thread, NULL, release_in_context, &releaser), 0);
    ok(cuMemFree(pointer)); /* Returns after the touch, which is therefore legal. */
    assert_int_equal(simgpu_pending(), 0);
    pthread_join(thread, NULL);
}

static void blocking_streams_order_with_the_default_stream(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    ok(cuMemAlloc(&pointer, 4096));
    ok(simgpu_touch(blocking, pointer, 16, 1));
    ok(simgpu_expect(NULL, pointer, 16, 1));
    ok(simgpu_touch(NULL, pointer, 16, 2));
    ok(simgpu_expect(blocking, pointer, 16, 2));
    ok(cuStreamSynchronize(blocking));
    assert_int_equal(simgpu_pending(), 0);
}

static void non_blocking_streams_do_not(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&pointer, 4096));
    ok(simgpu_touch(stream, pointer, 16, 1));
    ok(simgpu_expect(NULL, pointer, 16, 1)); /* A race, which the device shows. */
    ok(cuStreamSynchronize(NULL));
    expect_reports(1);
    ok(cuStreamSynchronize(stream));
}

static void waits_keep_the_recording_they_saw(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUevent event;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream b = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream c = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuEventCreate(&event, 0));
    ok(cuMemAlloc(&pointer, 4096));
    ok(simgpu_touch(a, pointer, 16, 1));
    ok(cuEventRecord(event, a));
    ok(cuStreamWaitEvent(b, event, 0));
    ok(cuEventRecord(event, c)); /* Records it again, in an empty stream. */
    ok(cuEventDestroy(event));
    ok(simgpu_expect(b, pointer, 16, 1));
    ok(cuStreamSynchronize(c));
    ok(cuStreamSynchronize(b));
}

static void chains_of_events_run_in_order(void **state) {
    (void)state;
    enum { STREAMS = 8, ROUNDS = 50 };
    CUdeviceptr pointer;
    CUstream streams[STREAMS];
    CUevent event;
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuMemAlloc(&pointer, 64));
    for (int i = 0; i < STREAMS; i++)
        streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 1; i < STREAMS * ROUNDS; i++) {
        CUstream stream = streams[i % STREAMS];
        ok(cuStreamWaitEvent(stream, event, 0));
        if (i > 1)
            ok(simgpu_expect(stream, pointer, 64, (unsigned char)(i - 1)));
        ok(simgpu_touch(stream, pointer, 64, (unsigned char)i));
        ok(cuEventRecord(event, stream));
    }
    ok(cuEventSynchronize(event));
    assert_int_equal(byte_at(pointer), (STREAMS * ROUNDS - 1) & 0xff);
}

static void pageable_sources_may_change_at_once(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    char source[1024];
    memset(source, 4, sizeof source);
    ok(cuMemAlloc(&pointer, sizeof source));
    ok(cuMemcpyHtoDAsync(pointer, source, sizeof source, stream));
    memset(source, 5, sizeof source);
    ok(simgpu_expect(stream, pointer, sizeof source, 4));
    ok(cuStreamSynchronize(stream));
}

static void pinned_sources_are_read_late(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    void *source;
    ok(cuMemHostAlloc(&source, 1024, 0));
    memset(source, 4, 1024);
    ok(cuMemAlloc(&pointer, 1024));
    ok(cuMemcpyHtoDAsync(pointer, source, 1024, stream));
    memset(source, 5, 1024); /* The program's mistake, which shows as on a card. */
    ok(simgpu_expect(stream, pointer, 1024, 5));
    ok(cuStreamSynchronize(stream));
}

static void pinned_targets_are_written_without_asking(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    void *target;
    ok(cuMemHostAlloc(&target, 16, 0));
    ok(cuMemAlloc(&pointer, 16));
    ok(simgpu_touch(stream, pointer, 16, 3));
    ok(cuMemcpyDtoHAsync(target, pointer, 16, stream));
    for (int i = 0; i < 2000 && simgpu_pending() > 0; i++)
        usleep(1000);
    assert_int_equal(simgpu_pending(), 0);
    assert_int_equal(*(char *)target, 3);
}

struct note {
    pthread_t thread;
    int calls;
    CUresult inside;
};

static void host_function(void *data) {
    struct note *note = data;
    note->thread = pthread_self();
    note->calls++;
    note->inside = cuCtxSynchronize();
}

static void callback(CUstream stream, CUresult status, void *data) {
    (void)stream;
    assert_int_equal(status, CUDA_SUCCESS);
    host_function(data);
}

static void host_functions_run_on_their_own_thread(void **state) {
    (void)state;
    struct note note = {.calls = 0};
    CUstream stream = new_stream(0);
    ok(cuLaunchHostFunc(stream, host_function, &note));
    ok(cuStreamAddCallback(stream, callback, &note, 0));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(note.calls, 2);
    assert_false(pthread_equal(note.thread, pthread_self()));
    assert_int_equal(note.inside, CUDA_ERROR_NOT_PERMITTED);
}

static void values_in_memory_order_streams(void **state) {
    (void)state;
    CUdeviceptr flag, data;
    CUstream writer = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream waiter = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&flag, 8));
    ok(cuMemAlloc(&data, 16));
    ok(cuMemsetD8(flag, 0, 8));
    ok(cuCtxSynchronize());
    ok(cuStreamWaitValue32(waiter, flag, 9, CU_STREAM_WAIT_VALUE_GEQ));
    ok(simgpu_expect(waiter, data, 16, 6));
    fails(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
    fails(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
    ok(simgpu_touch(writer, data, 16, 6));
    ok(cuStreamWriteValue32(writer, flag, 10, 0));
    ok(cuStreamSynchronize(writer));
    ok(cuStreamSynchronize(waiter));
}

static void illegal_accesses_end_the_context(void **state) {
    (void)state;
    CUdeviceptr pointer, other;
    CUstream stream = new_stream(0);
    ok(cuMemAlloc(&pointer, 4 * MIB));
    ok(simgpu_touch(stream, pointer + 4 * MIB - 1, 2, 1)); /* One byte too far. */
    fails(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuMemAlloc(&other, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuMemFree(pointer), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_reports(1);
    reset_device();
    ok(cuMemAlloc(&other, 1));
}

static void kernels_do_not_reach_pageable_memory(void **state) {
    (void)state;
    char own[64];
    void *pinned;
    ok(cuMemHostAlloc(&pinned, 64, 0));
    ok(simgpu_touch(NULL, (CUdeviceptr)pinned, 64, 1));
    ok(cuCtxSynchronize());
    assert_int_equal(*(char *)pinned, 1);
    ok(simgpu_use(NULL, (CUdeviceptr)own, sizeof own, 0));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_reports(1);
    reset_device();
}

static void stale_handles_are_reported(void **state) {
    (void)state;
    CUevent event;
    CUstream stream = new_stream(0), again;
    ok(cuEventCreate(&event, 0));
    ok(cuEventDestroy(event));
    ok(cuStreamDestroy(stream));
    again = new_stream(0);
    assert_ptr_not_equal(stream, again);
    fails(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    fails(cuEventRecord(event, again), CUDA_ERROR_INVALID_HANDLE);
    fails(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    fails(cuMemsetD8Async(0, 0, 1, stream), CUDA_ERROR_INVALID_HANDLE);
    expect_reports(5);
}

static void a_destroyed_stream_finishes_its_work(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&pointer, 16));
    ok(simgpu_touch(stream, pointer, 16, 8));
    ok(cuStreamDestroy(stream));
    ok(cuCtxSynchronize());
    assert_int_equal(byte_at(pointer), 8);
}

/* Both would be freed while the list of streams is walked (found by the address sanitizer). */
static void a_reset_takes_a_destroyed_stream_along(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream destroyed = new_stream(CU_STREAM_NON_BLOCKING);
    new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&pointer, 16));
    ok(simgpu_touch(destroyed, pointer, 16, 8));
    ok(cuStreamDestroy(destroyed));
    reset_device();
    assert_int_equal(simgpu_pending(), 0);
}

static void elapsed_times_need_timing(void **state) {
    (void)state;
    CUevent start, end, untimed;
    float milliseconds = -1;
    ok(cuEventCreate(&start, 0));
    ok(cuEventCreate(&end, 0));
    ok(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    fails(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
    ok(cuEventRecord(start, NULL));
    usleep(2000);
    ok(cuEventRecord(end, NULL));
    fails(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
    ok(cuEventSynchronize(end));
    ok(cuEventElapsedTime(&milliseconds, start, end));
    assert_true(milliseconds >= 1.9f);
    fails(cuEventElapsedTime(&milliseconds, untimed, end), CUDA_ERROR_INVALID_HANDLE);
}

static void long_queues_do_not_grow_without_end(void **state) {
    (void)state;
    CUfunction kernel = any_kernel();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 100000; i++)
        launch(kernel, stream);
    size_t pending = simgpu_pending();
    assert_true(pending >= 1 && pending <= 1024);
    ok(cuCtxSynchronize());
}

static void *use_own_default(void *data) {
    CUdeviceptr pointer = *(CUdeviceptr *)data;
    CUcontext context;
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    ok(simgpu_touch(CU_STREAM_PER_THREAD, pointer, 16, 9));
    ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

/* The per-thread default stream of another thread is not held back by this thread's. */
static void per_thread_streams_are_separate(void **state) {
    (void)state;
    CUdeviceptr pointer;
    pthread_t thread;
    ok(cuMemAlloc(&pointer, 16));
    ok(simgpu_hold(CU_STREAM_PER_THREAD));
    ok(simgpu_touch(CU_STREAM_PER_THREAD, pointer, 16, 1));
    assert_int_equal(pthread_create(&thread, NULL, use_own_default, &pointer), 0);
    pthread_join(thread, NULL);
    assert_int_equal(simgpu_pending(), 1);
    ok(simgpu_release(CU_STREAM_PER_THREAD));
    ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    assert_int_equal(byte_at(pointer), 1);
}

static void per_thread_streams_end_with_their_context(void **state) {
    (void)state;
    CUdeviceptr pointer;
    unsigned long long before, after;
    ok(cuStreamGetId(CU_STREAM_PER_THREAD, &before));
    reset_device();
    ok(cuStreamGetId(CU_STREAM_PER_THREAD, &after));
    assert_int_not_equal(before, after);
    ok(cuMemAlloc(&pointer, 16));
    ok(simgpu_touch(CU_STREAM_PER_THREAD, pointer, 16, 1));
    ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    assert_int_equal(byte_at(pointer), 1);
}

int main(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    const struct CMUnitTest tests[] = {
        device_test(work_is_pending_until_waited_for),
        device_test(asking_twice_makes_progress),
        device_test(a_held_stream_stays_pending),
        device_test(a_context_event_covers_every_stream),
        device_test(a_wait_ends_when_the_hold_ends),
        device_test(free_waits_for_the_device),
        device_test(blocking_streams_order_with_the_default_stream),
        device_test(non_blocking_streams_do_not),
        device_test(waits_keep_the_recording_they_saw),
        device_test(chains_of_events_run_in_order),
        device_test(pageable_sources_may_change_at_once),
        device_test(pinned_sources_are_read_late),
        device_test(pinned_targets_are_written_without_asking),
        device_test(host_functions_run_on_their_own_thread),
        device_test(values_in_memory_order_streams),
        device_test(illegal_accesses_end_the_context),
        device_test(kernels_do_not_reach_pageable_memory),
        device_test(stale_handles_are_reported),
        device_test(a_destroyed_stream_finishes_its_work),
        device_test(a_reset_takes_a_destroyed_stream_along),
        device_test(elapsed_times_need_timing),
        device_test(long_queues_do_not_grow_without_end),
        device_test(per_thread_streams_are_separate),
        device_test(per_thread_streams_end_with_their_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
