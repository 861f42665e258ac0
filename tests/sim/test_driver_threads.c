/* Calls that wait let other threads in, who may take away what was looked up before. */
#include "test_driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

struct blocker {
    CUcontext context;
    CUdeviceptr pointer;
    atomic_int inside, ended;
    atomic_bool go_on;
};

static void block(void *data) {
    struct blocker *blocker = data;
    while (!atomic_load(&blocker->go_on))
        usleep(1000);
}

static void *wait_for_event(void *event) {
    ok(cuEventSynchronize(event));
    return NULL;
}

/* Its waiters would sleep for ever. */
static void a_held_stream_that_is_destroyed_goes_on(void **state) {
    (void)state;
    pthread_t thread;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    ok(cuEventCreate(&event, 0));
    ok(simgpu_hold(stream));
    ok(cuEventRecord(event, stream));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_event, event), 0);
    usleep(30000); /* It waits by then, on most machines; where not, the test shows less. */
    ok(cuStreamDestroy(stream));
    pthread_join(thread, NULL);
}

/* Calls that wait for the device let others in: what was looked up before may be gone after. */
static void at_once(struct blocker *blocker, void *(*body)(void *)) {
    pthread_t threads[2];
    ok(cuCtxGetCurrent(&blocker->context));
    ok(cuLaunchHostFunc(NULL, block, blocker));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, blocker), 0);
    while (atomic_load(&blocker->inside) < 2)
        usleep(1000);
    usleep(30000); /* Both wait by then, on most machines; where not, the test shows less. */
    atomic_store(&blocker->go_on, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void *reset_once(void *data) {
    struct blocker *blocker = data;
    atomic_fetch_add(&blocker->inside, 1);
    atomic_fetch_add(&blocker->ended, cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
    return NULL;
}

static void two_threads_reset_the_device(void **state) {
    (void)state;
    struct blocker blocker = {.go_on = false};
    size_t before = free_bytes();
    at_once(&blocker, reset_once);
    assert_int_equal(blocker.ended, 2);
    new_context();
    assert_int_equal(free_bytes(), before);
}

static void *free_once(void *data) {
    struct blocker *blocker = data;
    ok(cuCtxSetCurrent(blocker->context));
    atomic_fetch_add(&blocker->inside, 1);
    atomic_fetch_add(&blocker->ended, cuMemFreeAsync(blocker->pointer, NULL) == CUDA_SUCCESS);
    return NULL;
}

static void two_threads_free_the_same(void **state) {
    (void)state;
    struct blocker blocker = {.go_on = false};
    ok(cuMemAlloc(&blocker.pointer, 4 * MIB));
    at_once(&blocker, free_once);
    assert_int_equal(blocker.ended, 1);
    expect_reports(1);
}

int main(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    const struct CMUnitTest tests[] = {
        device_test(a_held_stream_that_is_destroyed_goes_on),
        device_test(two_threads_reset_the_device),
        device_test(two_threads_free_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
