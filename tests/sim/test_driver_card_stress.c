/* Many threads whose work takes as long as on a card: a full queue has its submitter wait, and so
 * does a pool that grows, while others take and free the same memory and wait for the same work.
 * Also built with the address and the thread sanitizer (make check-sim-sanitize). */
#include "test_driver.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 30, LAUNCHES = 1030 }; /* A queue holds 1024. */

struct worker {
    pthread_t thread;
    unsigned seed;
    CUcontext context;
    CUfunction kernel;
    CUstream stream;
    unsigned long wrong;
};

/* Assertions of cmocka work on the main thread only. */
#define must(call) (worker->wrong += (call) != CUDA_SUCCESS)

static unsigned pick(struct worker *worker, unsigned below) {
    return (unsigned)rand_r(&worker->seed) % below;
}

/* What is submitted next waits for room in the queue, with the device let go. */
static void fill_queue(struct worker *worker) {
    for (int i = 0; i < LAUNCHES; i++)
        must(cuLaunchKernel(worker->kernel, 1, 1, 1, 1, 1, 1, 0, worker->stream, NULL, NULL));
}

static void events(struct worker *worker) {
    CUevent event;
    must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 600; i++)
        must(cuEventRecord(event, worker->stream));
    must(cuEventSynchronize(event));
    must(cuEventDestroy(event));
}

/* Memory is short: what another stream has yet to free is taken, too. */
static void memory(struct worker *worker) {
    CUdeviceptr pointer;
    size_t bytes = (32 + pick(worker, 3) * 32) * MIB;
    for (int i = 0; i < 300; i++) {
        CUresult result = cuMemAllocAsync(&pointer, bytes, worker->stream);
        if (result == CUDA_SUCCESS)
            must(cuMemFreeAsync(pointer, worker->stream));
        else
            worker->wrong += result != CUDA_ERROR_OUT_OF_MEMORY;
    }
}

static void others(struct worker *worker) {
    must(cuCtxSynchronize());
    must(cuStreamDestroy(worker->stream));
    must(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
}

static void *work(void *data) {
    static void (*const actions[])(struct worker *) = {events, memory, memory, others};
    struct worker *worker = data;
    must(cuCtxSetCurrent(worker->context));
    must(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++) {
        if (pick(worker, 2))
            fill_queue(worker);
        actions[pick(worker, sizeof actions / sizeof *actions)](worker);
    }
    must(cuStreamDestroy(worker->stream));
    return NULL;
}

static void full_queues_and_a_full_pool(void **state) {
    (void)state;
    static struct worker workers[THREADS];
    CUfunction kernel = any_kernel();
    size_t before = free_bytes();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed = seed_from(i + 1);
        workers[i].kernel = kernel;
        ok(cuCtxGetCurrent(&workers[i].context));
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    ok(cuCtxSynchronize());
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].wrong, 0);
    assert_int_equal(simgpu_pending(), 0);
    assert_int_equal(free_bytes(), before);
}

int main(void) {
    setenv("SIMGPU_MEM", "512MiB", 1);
    setenv("SIMGPU_LATENCY", "card", 1);
    const struct CMUnitTest tests[] = {device_test(full_queues_and_a_full_pool)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
