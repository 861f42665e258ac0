/* Many threads and streams at once: nothing is reported, nothing is lost. Also built with the
 * address and the thread sanitizer (make check-sim-sanitize). */
#include "test_driver.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 16, STREAMS = 4, ROUNDS = 1000, PAGES = 4 };

struct worker {
    pthread_t thread;
    unsigned seed;
    CUcontext context;
    CUstream streams[STREAMS];
    CUevent event;
    CUdeviceptr base; /* A reservation of PAGES pages, mapped and unmapped again. */
    CUmemGenericAllocationHandle pages[PAGES];
    atomic_int host_calls;
    int host_wanted;
    unsigned long wrong;
};

/* Assertions of cmocka work on the main thread only. */
#define must(call) (worker->wrong += (call) != CUDA_SUCCESS)

static unsigned pick(struct worker *worker, unsigned below) {
    return (unsigned)rand_r(&worker->seed) % below;
}

static CUstream any_stream(struct worker *worker) {
    return worker->streams[pick(worker, STREAMS)];
}

static void count_call(void *data) {
    atomic_fetch_add((atomic_int *)data, 1);
}

static void plain_memory(struct worker *worker) {
    CUdeviceptr pointer;
    CUstream stream = any_stream(worker);
    size_t bytes = 1 + pick(worker, 3) * MIB + pick(worker, 2000);
    must(cuMemAlloc(&pointer, bytes));
    must(simgpu_touch(stream, pointer, bytes < 4096 ? bytes : 4096, 0x11));
    must(simgpu_expect(stream, pointer, bytes < 4096 ? bytes : 4096, 0x11));
    must(cuMemFree(pointer));
}

static void pool_memory(struct worker *worker) {
    CUdeviceptr pointer;
    CUstream stream = any_stream(worker), other = any_stream(worker);
    unsigned char value = (unsigned char)pick(worker, 256);
    must(cuMemAllocAsync(&pointer, 1 + pick(worker, 100000), stream));
    must(simgpu_touch(stream, pointer, 1, value));
    must(cuEventRecord(worker->event, stream));
    must(cuStreamWaitEvent(other, worker->event, 0));
    must(simgpu_expect(other, pointer, 1, value));
    must(cuMemFreeAsync(pointer, other));
}

static void mapped_memory(struct worker *worker) {
    CUmemAccessDesc access = full_access();
    CUstream stream = any_stream(worker);
    for (int i = 0; i < PAGES; i++)
        must(cuMemMap(worker->base + (size_t)i * 2 * MIB, 2 * MIB, 0, worker->pages[i], 0));
    must(cuMemSetAccess(worker->base, PAGES * 2 * MIB, &access, 1));
    must(simgpu_touch(stream, worker->base + 2 * MIB - 8, 16, 0x22));
    must(simgpu_expect(stream, worker->base + 2 * MIB - 8, 16, 0x22));
    must(cuEventRecord(worker->event, stream));
    must(cuEventSynchronize(worker->event));
    must(cuMemUnmap(worker->base, PAGES * 2 * MIB));
}

static void copies(struct worker *worker) {
    CUdeviceptr pointer;
    CUstream stream = any_stream(worker);
    char out[256], back[256];
    memset(out, (int)pick(worker, 256), sizeof out);
    must(cuMemAllocAsync(&pointer, sizeof out, stream));
    must(cuMemcpyHtoDAsync(pointer, out, sizeof out, stream));
    must(cuMemcpyDtoHAsync(back, pointer, sizeof back, stream));
    worker->wrong += memcmp(out, back, sizeof out) != 0;
    must(cuMemFreeAsync(pointer, stream));
}

static void host_functions(struct worker *worker) {
    must(cuLaunchHostFunc(any_stream(worker), count_call, &worker->host_calls));
    worker->host_wanted++;
}

static void questions(struct worker *worker) {
    CUresult result = cuStreamQuery(any_stream(worker));
    worker->wrong += result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
    if (pick(worker, 10) == 0)
        must(cuCtxSynchronize());
    int stream = (int)pick(worker, STREAMS);
    must(cuStreamDestroy(worker->streams[stream]));
    must(cuStreamCreate(&worker->streams[stream], pick(worker, 2) ? CU_STREAM_NON_BLOCKING : 0));
}

static void *work(void *data) {
    static void (*const actions[])(struct worker *) = {plain_memory, pool_memory,    mapped_memory,
                                                       copies,       host_functions, questions};
    struct worker *worker = data;
    CUmemAllocationProp prop = device_prop();
    must(cuCtxSetCurrent(worker->context));
    must(cuEventCreate(&worker->event, CU_EVENT_DISABLE_TIMING));
    must(cuMemAddressReserve(&worker->base, PAGES * 2 * MIB, 0, 0, 0));
    for (int i = 0; i < PAGES; i++)
        must(cuMemCreate(&worker->pages[i], 2 * MIB, &prop, 0));
    for (int i = 0; i < STREAMS; i++)
        must(cuStreamCreate(&worker->streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++)
        actions[pick(worker, sizeof actions / sizeof *actions)](worker);
    must(cuCtxSynchronize());
    for (int i = 0; i < PAGES; i++)
        must(cuMemRelease(worker->pages[i]));
    must(cuMemAddressFree(worker->base, PAGES * 2 * MIB));
    return NULL;
}

static void everything_at_once(void **state) {
    (void)state;
    static struct worker workers[THREADS];
    size_t before = free_bytes();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed = seed_from(i + 1);
        ok(cuCtxGetCurrent(&workers[i].context));
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    ok(cuCtxSynchronize());
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(workers[i].wrong, 0);
        assert_int_equal(atomic_load(&workers[i].host_calls), workers[i].host_wanted);
    }
    assert_int_equal(simgpu_pending(), 0);
    assert_int_equal(free_bytes(), before);
}

int main(void) {
    setenv("SIMGPU_MEM", "2GiB", 1);
    const struct CMUnitTest tests[] = {device_test(everything_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
