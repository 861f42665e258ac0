/* What a card does that is hard on programs: what it is for certain, and the settings that make the
 * device slower, fuller and stricter. Each case runs in a child, which may leave a broken context.
 */
#include "test_driver_child.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* The child's own word on stderr tells where it failed. */
#define RUNS(name, value, function)                                                                \
    do {                                                                                           \
        int status = child_with(name, value, function);                                            \
        if (status != 0)                                                                           \
            fprintf(stderr, "%s\n", said);                                                         \
        assert_int_equal(status, 0);                                                               \
    } while (0)

/* ---- strict by default ---- */

/* A mapping of 2 MiB at the start of 4 MiB of addresses. */
static CUresult new_mapping(CUdeviceptr *base) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop();
    CUmemAccessDesc access = full_access();
    CUresult result = cuMemAddressReserve(base, 4 * MIB, 0, 0, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemCreate(&handle, 2 * MIB, &prop, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemMap(*base, 2 * MIB, 0, handle, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemSetAccess(*base, 2 * MIB, &access, 1);
    return result == CUDA_SUCCESS ? cuMemRelease(handle) : result;
}

static int work_after_a_fault(void) {
    CUdeviceptr base, other;
    CUevent event;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop();
    CUmemAccessDesc access = full_access();
    CHECK(start() == 0 && new_mapping(&base) == CUDA_SUCCESS);
    CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
    CHECK(cuEventCreate(&event, 0) == CUDA_SUCCESS && cuEventRecord(event, NULL) == CUDA_SUCCESS);
    CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
    simgpu_use(NULL, base + 2 * MIB, 1, 0);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuEventQuery(event) == CUDA_ERROR_ILLEGAL_ADDRESS); /* Though it was reached before. */
    CHECK(cuMemAddressReserve(&other, 2 * MIB, 0, 0, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemMap(base + 2 * MIB, 2 * MIB, 0, handle, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemSetAccess(base, 2 * MIB, &access, 1) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemUnmap(base, 2 * MIB) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemRelease(handle) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemAddressFree(base, 4 * MIB) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS && start() == 0);
    return new_mapping(&base) == CUDA_SUCCESS ? 0 : 1;
}

static void after_a_fault_mappings_fail_as_all_does(void **state) {
    (void)state;
    RUNS("SIMGPU_LOG", "0", work_after_a_fault);
}

static void asks_at_exit(void) {
    int count;
    CUdeviceptr pointer;
    fprintf(stderr, "%d %d", (int)cuDeviceGetCount(&count), (int)cuMemAlloc(&pointer, 1));
}

static int exits(void) {
    atexit(asks_at_exit);
    CHECK(start() == 0);
    exit(0);
}

static void nothing_works_once_the_process_exits(void **state) {
    (void)state;
    RUNS("SIMGPU_LOG", "0", exits);
    assert_string_equal(said, "4 4"); /* CUDA_ERROR_DEINITIALIZED */
}

/* ---- settings ---- */

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* How long the device works on so many kernels, by its own clock. */
static float kernels_ms(int count) {
    CUevent first, last;
    CUdeviceptr pointer;
    float took = -1;
    cuMemAlloc(&pointer, 4096);
    cuEventCreate(&first, 0);
    cuEventCreate(&last, 0);
    cuEventRecord(first, NULL);
    for (int i = 0; i < count; i++)
        simgpu_use(NULL, pointer, 1, 0);
    cuEventRecord(last, NULL);
    cuEventSynchronize(last);
    cuEventElapsedTime(&took, first, last);
    return took;
}

static int slow_kernels(void) {
    setenv("SIMGPU_LATENCY", "card", 1);
    CHECK(start() == 0 && kernels_ms(10) >= 10 * 0.03 * 20); /* 30 us each, as the table has it. */
    return 0;
}

static int kernels_of_any_length(void) {
    float shortest = 1e9f, longest = 0;
    setenv("SIMGPU_LATENCY", "card", 1);
    CHECK(start() == 0);
    for (int i = 0; i < 40; i++) {
        float took = kernels_ms(1);
        shortest = took < shortest ? took : shortest;
        longest = took > longest ? took : longest;
    }
    CHECK(longest > 2 && shortest < longest / 4);
    return 0;
}

static void the_device_can_be_slow(void **state) {
    (void)state;
    RUNS("SIMGPU_SLOW", "20", slow_kernels);
    RUNS("SIMGPU_KERNEL_US", "20000", kernels_of_any_length);
}

/* Passes unless a call lasts. */
static int questions_last(void) {
    size_t free_now, total;
    setenv("SIMGPU_LATENCY", "card", 1);
    CHECK(start() == 0);
    unsigned long long before = simgpu_latency_ns();
    CHECK(cuMemGetInfo(&free_now, &total) == CUDA_SUCCESS);
    CHECK(simgpu_latency_ns() > before);
    before = simgpu_latency_ns();
    CHECK(cuStreamQuery(NULL) == CUDA_SUCCESS);
    CHECK(simgpu_latency_ns() > before);
    return 0;
}

/* Passes unless such a call lasts as long as was set, and others do not. */
static int slow_readings(void) {
    size_t free_now, total;
    CHECK(start() == 0);
    unsigned long long before = simgpu_latency_ns();
    CHECK(cuStreamQuery(NULL) == CUDA_SUCCESS);
    CHECK(simgpu_latency_ns() == before);
    CHECK(cuMemGetInfo(&free_now, &total) == CUDA_SUCCESS);
    CHECK(simgpu_latency_ns() - before == 8000000);
    return 0;
}

static void questions_take_time(void **state) {
    (void)state;
    RUNS("SIMGPU_GET_INFO_US", "8000", slow_readings);
    RUNS("SIMGPU_LOG", "0", questions_last);
}

static void *allocate(void *pointer) {
    new_context();
    cuMemHostAlloc(pointer, 4096 * MIB, 0); /* 0.6 s, by the table. */
    return NULL;
}

/* How long a launch lasts that begins while another thread's call goes on. */
static double launch_beside_a_call(CUdeviceptr operand) {
    pthread_t thread;
    void *pointer = NULL;
    unsigned long long before = simgpu_latency_ns();
    pthread_create(&thread, NULL, allocate, &pointer);
    while (simgpu_latency_ns() == before)
        ;
    double begin = milliseconds();
    simgpu_use(NULL, operand, 1, 0);
    double took = milliseconds() - begin;
    pthread_join(thread, NULL);
    return took;
}

static int launches_wait(void) {
    setenv("SIMGPU_LATENCY", "card", 1);
    CHECK(start() == 0);
    CUdeviceptr pointer;
    CHECK(cuMemAlloc(&pointer, 1) == CUDA_SUCCESS);
    CHECK(launch_beside_a_call(pointer) > 30);
    return 0;
}

static int a_first_launch_waits(void) {
    CHECK(start() == 0);
    CUfunction function = any_kernel();
    CUdeviceptr pointer;
    CHECK(cuMemAlloc(&pointer, 1) == CUDA_SUCCESS && simgpu_use(NULL, pointer, 1, 0) == 0);
    CHECK(simgpu_pending() == 1);
    launch(function, NULL);
    CHECK(simgpu_pending() == 1); /* The kernel alone. */
    launch(function, NULL);
    return simgpu_pending() == 2 ? 0 : 1;
}

static void launches_share_a_lock_with_calls_that_last(void **state) {
    (void)state;
    RUNS("SIMGPU_CONTEXT_LOCK", "1", launches_wait);
    RUNS("SIMGPU_CONTEXT_LOCK", "1", a_first_launch_waits);
}

static int asks_while_capturing(void) {
    size_t free_now, total;
    CUgraph graph;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CHECK(start() == 0);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 3; i++) {
        CUresult refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK((i == 0   ? cuMemGetInfo(&free_now, &total)
               : i == 1 ? cuStreamQuery(other)
                        : cuStreamSynchronize(other)) == refused);
        CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuMemGetInfo(&free_now, &total) == CUDA_SUCCESS && cuStreamQuery(other) == CUDA_SUCCESS);
    return cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS ? 0 : 1;
}

static void captures_can_be_broken_by_questions(void **state) {
    (void)state;
    RUNS("SIMGPU_CAPTURE_STRICT", "1", asks_while_capturing);
}

static int tables_are_charged(void) {
    CUdeviceptr base, fill;
    CUmemAccessDesc access = full_access();
    CUmemGenericAllocationHandle handle;
    CHECK(start() == 0);
    size_t before = free_bytes();
    CHECK(new_mapping(&base) == CUDA_SUCCESS && before - free_bytes() == 2 * MIB + 8 * MIB);
    ok(cuMemUnmap(base, 2 * MIB));
    CHECK(before - free_bytes() == 8 * MIB); /* Tables stay. */
    handle = new_handle(2 * MIB);
    ok(cuMemMap(base, 2 * MIB, 0, handle, 0)); /* Elsewhere might be another table. */
    ok(cuMemSetAccess(base, 2 * MIB, &access, 1));
    CHECK(before - free_bytes() == 2 * MIB + 8 * MIB);
    /* Mapped far away, where there is no memory left for another table. */
    handle = new_handle(2 * MIB);
    ok(cuMemAddressReserve(&base, (size_t)2 << 30, 0, 0, 0));
    ok(cuMemMap(base + ((size_t)1 << 30), 2 * MIB, 0, handle, 0));
    fill = new_handle(free_bytes() - 6 * MIB);
    CHECK(cuMemSetAccess(base + ((size_t)1 << 30), 2 * MIB, &access, 1) ==
          CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemRelease(fill));
    ok(cuMemSetAccess(base + ((size_t)1 << 30), 2 * MIB, &access, 1));
    ok(cuDevicePrimaryCtxReset(0));
    CHECK(start() == 0 && free_bytes() == before);
    return 0;
}

static int local_memory_is_charged(void) {
    CHECK(start() == 0);
    CUfunction function = any_kernel();
    size_t before = free_bytes();
    CUmemGenericAllocationHandle fill = new_handle(before - 10 * MIB);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) ==
          CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemRelease(fill));
    launch(function, NULL);
    launch(any_kernel(), NULL);
    CHECK(before - free_bytes() == 64 * MIB);
    ok(cuDevicePrimaryCtxReset(0));
    CHECK(start() == 0 && free_bytes() == before);
    return 0;
}

static int modules_are_charged(void) {
    CUmodule module;
    CUfunction one, two;
    CHECK(start() == 0);
    ok(cuModuleLoadData(&module, "image"));
    ok(cuModuleGetFunction(&one, module, "one"));
    ok(cuModuleGetFunction(&two, module, "two"));
    size_t before = free_bytes(); /* Nothing is loaded before it is launched. */
    launch(one, NULL);
    launch(two, NULL);
    CHECK(before - free_bytes() == 64 * MIB);
    launch(any_kernel(), NULL);
    CHECK(before - free_bytes() == 128 * MIB);
    ok(cuModuleUnload(module));
    CHECK(before - free_bytes() == 64 * MIB);
    ok(cuDevicePrimaryCtxReset(0));
    CHECK(start() == 0 && free_bytes() == before);
    return 0;
}

static void more_than_pages_takes_memory(void **state) {
    (void)state;
    RUNS("SIMGPU_PAGE_TABLE", "8MiB", tables_are_charged);
    RUNS("SIMGPU_LOCAL_MEM", "64MiB", local_memory_is_charged);
    RUNS("SIMGPU_MODULE_MEM", "64MiB", modules_are_charged);
}

/* The device is so much ahead of the machine from now on. */
static void set_clock(uint64_t ahead_ms) {
    uint64_t ahead_ns = ahead_ms * 1000000;
    int file = open(getenv("SIMGPU_CLOCK"), O_WRONLY | O_CREAT, 0600);
    ok(pwrite(file, &ahead_ns, sizeof ahead_ns, 0) == sizeof ahead_ns ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_UNKNOWN);
    close(file);
}

static int what_is_freed_is_told_late(void) {
    char clock[] = "/tmp/test_driver_clock.XXXXXX";
    close(mkstemp(clock));
    setenv("SIMGPU_CLOCK", clock, 1);
    set_clock(0);
    CHECK(start() == 0);
    size_t before = free_bytes(), used = simgpu_used_bytes(0);
    CUmemGenericAllocationHandle handle = new_handle(before);
    CHECK(free_bytes() == 0);
    ok(cuMemRelease(handle));
    CHECK(free_bytes() == 0 && simgpu_used_bytes(0) == used);
    handle = new_handle(before); /* It can be had. */
    ok(cuMemRelease(handle));
    set_clock(300000);
    CHECK(free_bytes() == 0);
    set_clock(1000000);
    CHECK(free_bytes() == before);
    unlink(clock);
    return 0;
}

static void what_is_free_can_be_told_late(void **state) {
    (void)state;
    RUNS("SIMGPU_FREE_LAG_MS", "600000", what_is_freed_is_told_late);
}

static int handles_end(void) {
    CUmemGenericAllocationHandle handles[3], more;
    CUmemAllocationProp prop = device_prop();
    CHECK(start() == 0);
    for (int i = 0; i < 3; i++)
        handles[i] = new_handle(2 * MIB);
    CHECK(cuMemCreate(&more, 2 * MIB, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemRelease(handles[1]));
    more = new_handle(2 * MIB);
    return 0;
}

static int addresses_end(void) {
    CUdeviceptr first, second;
    CHECK(start() == 0);
    ok(cuMemAddressReserve(&first, 60 * MIB, 0, 0, 0));
    CHECK(cuMemAddressReserve(&second, 60 * MIB, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAddressFree(first, 60 * MIB));
    ok(cuMemAddressReserve(&second, 60 * MIB, 0, 0, 0));
    return 0;
}

static void handles_and_addresses_can_end(void **state) {
    (void)state;
    RUNS("SIMGPU_MAX_HANDLES", "3", handles_end);
    RUNS("SIMGPU_MAX_ADDRESSES", "100MiB", addresses_end);
}

static int reads_past_the_end(void) {
    CUdeviceptr base, plain;
    unsigned char byte;
    CHECK(start() == 0 && new_mapping(&base) == CUDA_SUCCESS);
    ok(cuMemAlloc(&plain, 4096));
    ok(simgpu_touch(NULL, plain, 4096, 1));         /* All of it is there. */
    ok(simgpu_use(NULL, base, 2 * MIB - 65536, 1)); /* 64 KiB are left behind it. */
    ok(cuMemcpyDtoH(&byte, base + 2 * MIB - 65537, 1));
    ok(cuCtxSynchronize());
    ok(simgpu_use(NULL, base, 2 * MIB - 65535, 0));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(simgpu_errors() == 1);
    return 0;
}

static int reads_end_with_the_reservation(void) {
    CUdeviceptr base;
    CUmemGenericAllocationHandle handle = 0;
    CHECK(start() == 0);
    handle = new_handle(2 * MIB);
    ok(cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
    map_all(base, 2 * MIB, handle);
    ok(simgpu_use(NULL, base, 2 * MIB, 1));
    ok(cuCtxSynchronize());
    return 0;
}

static void what_reads_can_go_on_past_its_end(void **state) {
    (void)state;
    int status = child_with("SIMGPU_OVERREAD", "64KiB", reads_past_the_end);
    assert_int_equal(status, 0);
    assert_non_null(strstr(said, "simgpu: ERROR illegal address: use of stream"));
    RUNS("SIMGPU_OVERREAD", "64KiB", reads_end_with_the_reservation);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_can_be_slow),
        cmocka_unit_test(questions_take_time),
        cmocka_unit_test(launches_share_a_lock_with_calls_that_last),
        cmocka_unit_test(captures_can_be_broken_by_questions),
        cmocka_unit_test(more_than_pages_takes_memory),
        cmocka_unit_test(what_is_free_can_be_told_late),
        cmocka_unit_test(handles_and_addresses_can_end),
        cmocka_unit_test(what_reads_can_go_on_past_its_end),
        cmocka_unit_test(after_a_fault_mappings_fail_as_all_does),
        cmocka_unit_test(nothing_works_once_the_process_exits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
