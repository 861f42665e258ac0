/* The settings SIMGPU_*. They are read once in a process, so each case runs in a child; this
 * process itself never uses the device. */
#include "test_driver_child.h"

#include "driver/latency.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int memory_in_gib(void) {
    size_t free_now, total;
    if (start() != 0 || cuMemGetInfo(&free_now, &total) != CUDA_SUCCESS)
        return 99;
    return (int)(total >> 30);
}

static void memory_is_set(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_MEM", "3GiB", memory_in_gib)), 3);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_MEM", "5g", memory_in_gib)), 5);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_MEM", "6144MiB", memory_in_gib)), 6);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_MEM", "2147483648", memory_in_gib)), 2);
    assert_string_equal(said, "");
}

static void bad_values_cost_one_line(void **state) {
    (void)state;
    static const char *const bad[] = {"lots", "-3GiB", "4GB8", "nan", "1e30"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(WEXITSTATUS(child_with("SIMGPU_MEM", bad[i], memory_in_gib)), 24);
        assert_non_null(strstr(said, "simgpu: SIMGPU_MEM="));
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    }
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_DEVICES", "two", memory_in_gib)), 24);
    assert_non_null(strstr(said, "a whole number from 0 to 8"));
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_CC", "9", memory_in_gib)), 24);
    assert_non_null(strstr(said, "a compute capability such as 8.9"));
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_LATENCY", "slow", memory_in_gib)), 24);
    assert_non_null(strstr(said, "none or card"));
}

static int context_in_mib(void) {
    size_t free_now, total;
    if (start() != 0 || cuMemGetInfo(&free_now, &total) != CUDA_SUCCESS)
        return 255;
    return (int)((total - free_now) >> 20);
}

static void a_context_takes_what_is_set(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_CONTEXT_MEM", "100MiB", context_in_mib)), 100);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_CONTEXT_MEM", "0", context_in_mib)), 0);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_CONTEXT_MEM", "1TiB", start)), 100);
}

static int device_count(void) {
    int count = 50;
    CUresult result = cuInit(0);
    if (result != CUDA_SUCCESS)
        return (int)result;
    cuDeviceGetCount(&count);
    return count;
}

static void devices_are_counted(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_DEVICES", "3", device_count)), 3);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_DEVICES", "0", device_count)),
                     CUDA_ERROR_NO_DEVICE);
}

/* A kernel on one device that uses the other's memory, before and after peer access is enabled;
 * copies need none. */
static int use_of_a_peer(void) {
    CUcontext first, second;
    CUdeviceptr pointer;
    if (start() != 0 || cuDevicePrimaryCtxRetain(&second, 1) != CUDA_SUCCESS)
        return 255;
    cuCtxGetCurrent(&first);
    cuMemAlloc(&pointer, 4096);
    cuCtxSetCurrent(second);
    int wrong = cuMemsetD8(pointer, 0, 16) != CUDA_SUCCESS;
    wrong += cuCtxEnablePeerAccess(first, 0) != CUDA_SUCCESS;
    wrong += cuCtxEnablePeerAccess(first, 0) != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    simgpu_use(NULL, pointer, 16, 1);
    wrong += cuCtxSynchronize() != CUDA_SUCCESS;
    wrong += cuCtxDisablePeerAccess(first) != CUDA_SUCCESS;
    simgpu_use(NULL, pointer, 16, 1);
    wrong += cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS;
    cuCtxSetCurrent(first);
    return wrong + (cuCtxSynchronize() != CUDA_SUCCESS); /* The other context is fine. */
}

static void peers_have_to_be_enabled(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_DEVICES", "2", use_of_a_peer)), 0);
}

static int capability(void) {
    int major = 0, minor = 0;
    if (start() != 0)
        return 255;
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    return major * 10 + minor;
}

static int version_of_driver(void) {
    int version = 0;
    void *function;
    cuDriverGetVersion(&version);
    if (cuGetProcAddress("cuInit", &function, version + 10, 0, NULL) != CUDA_ERROR_INVALID_VALUE)
        return 255;
    return version / 100;
}

static void versions_are_set(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_CC", "12.0", capability)), 120);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_DRIVER", "12080", version_of_driver)), 120);
}

/* One bit for each of eight allocations that was refused. */
static int refusals(void) {
    CUdeviceptr pointer;
    int bits = 0;
    if (start() != 0)
        return 255;
    for (int i = 0; i < 7; i++)
        bits |= (cuMemAlloc(&pointer, 4096) == CUDA_ERROR_OUT_OF_MEMORY) << i;
    return bits;
}

static void every_nth_request_is_refused(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_OOM_NTH", "3", refusals)), 0x24);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_OOM_NTH", "0", refusals)), 0);
}

/* Copies 1 KiB and 1 MiB there and back; a bit for each that came back unchanged. */
static int copies_that_arrive(void) {
    static char out[1 << 20], back[1 << 20];
    static const size_t sizes[] = {1 << 10, 1 << 20};
    CUdeviceptr pointer;
    int bits = 0;
    if (start() != 0 || cuMemAlloc(&pointer, sizeof out) != CUDA_SUCCESS)
        return 255;
    memset(out, 7, sizeof out);
    for (int i = 0; i < 2; i++) {
        memset(back, 1, sizeof back);
        cuMemcpyHtoD(pointer, out, sizes[i]);
        cuMemcpyDtoH(back, pointer, sizes[i]);
        bits |= (back[0] == 7 && back[sizes[i] - 1] == 7) << i;
        bits |= (back[0] == 0 && back[sizes[i] - 1] == 0) << (i + 4);
    }
    return bits;
}

static void long_copies_may_move_nothing(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_DATA_LIMIT", "0", copies_that_arrive)), 3);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_DATA_LIMIT", "64KiB", copies_that_arrive)), 1);
}

/* What 7 comes back as: when it was just sent, after a kernel, and when it is sent again. */
static int results(void) {
    char value = 7, back[3] = {1, 1, 1};
    CUdeviceptr pointer;
    if (start() != 0 || cuMemAlloc(&pointer, 1) != CUDA_SUCCESS)
        return 255;
    cuMemcpyHtoD(pointer, &value, 1);
    cuMemcpyDtoH(&back[0], pointer, 1);
    launch(any_kernel(), NULL);
    cuMemcpyDtoH(&back[1], pointer, 1);
    cuMemcpyHtoD(pointer, &value, 1);
    cuMemcpyDtoH(&back[2], pointer, 1);
    return back[0] << 4 | back[1] << 2 | back[2] >> 1;
}

static void results_may_be_zeros(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_D2H_ZERO", "0", copies_that_arrive)), 3);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_D2H_ZERO", "4KiB", copies_that_arrive)), 3);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_D2H_ZERO", "4KiB", results)), 0x73);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_D2H_ZERO", "0", results)), 0x7f);
}

static int fabric_handle(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC};
    int supported = 0;
    if (start() != 0)
        return 255;
    cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0);
    return supported * 2 + (cuMemCreate(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
}

static void fabric_is_optional(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_FABRIC", "1", fabric_handle)), 3);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_FABRIC", "0", fabric_handle)), 0);
}

static int free_nonsense(void) {
    if (start() != 0)
        return 255;
    return cuMemFree(0x1234) == CUDA_ERROR_INVALID_VALUE && simgpu_errors() == 1 ? 0 : 1;
}

static void strictness_can_abort(void **state) {
    (void)state;
    assert_int_equal(child_with("SIMGPU_STRICT", "report", free_nonsense), 0);
    assert_non_null(strstr(said, "simgpu: ERROR cuMemFree"));
    int status = child_with("SIMGPU_STRICT", "abort", free_nonsense);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static int call_something_missing(void) {
    CUexternalMemory memory;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {0};
    if (start() != 0)
        return 255;
    return cuImportExternalMemory(&memory, &description) != CUDA_ERROR_NOT_SUPPORTED;
}

static void the_log_names_what_is_missing(void **state) {
    (void)state;
    assert_int_equal(child_with("SIMGPU_LOG", "0", call_something_missing), 0);
    assert_string_equal(said, "");
    assert_int_equal(child_with("SIMGPU_LOG", "1", call_something_missing), 0);
    assert_non_null(strstr(said, "cuImportExternalMemory is not simulated"));
}

static void the_log_goes_to_a_file(void **state) {
    (void)state;
    char path[] = "/tmp/simgpu-log-XXXXXX", text[4096] = "";
    int file = mkstemp(path);
    setenv("SIMGPU_LOG", "1", 1);
    assert_int_equal(child_with("SIMGPU_LOG_FILE", path, call_something_missing), 0);
    assert_string_equal(said, "");
    assert_true(read(file, text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "cuImportExternalMemory is not simulated"));
    close(file);
    unlink(path);
    assert_int_equal(child_with("SIMGPU_LOG_FILE", "/no/such/folder/x", call_something_missing), 0);
    assert_non_null(strstr(said, "cannot be written"));
    unsetenv("SIMGPU_LOG");
}

/* Milliseconds that 100 copies of 1 MiB take by events, which the host must really have waited. */
static int timed_copies(void) {
    CUdeviceptr pointer;
    CUstream stream;
    CUevent first, last;
    float elapsed = 0;
    void *host;
    if (start() != 0)
        return 255;
    cuMemAlloc(&pointer, MIB);
    cuMemHostAlloc(&host, MIB, 0);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuEventCreate(&first, 0);
    cuEventCreate(&last, 0);
    double begin = seconds();
    cuEventRecord(first, stream);
    for (int i = 0; i < 100; i++)
        cuMemcpyHtoDAsync(pointer, host, MIB, stream);
    cuEventRecord(last, stream);
    cuEventSynchronize(last);
    double waited = (seconds() - begin) * 1e3;
    cuEventElapsedTime(&elapsed, first, last);
    if (waited < elapsed - 1)
        return 254;
    return elapsed < 250 ? (int)elapsed : 250;
}

static void a_card_takes_its_time(void **state) {
    (void)state;
    int card = WEXITSTATUS(child_with("SIMGPU_LATENCY", "card", timed_copies));
    assert_true(card >= 4); /* 100 x 50 us by the table; more on a busy machine. */
    assert_true(card <= 250);
}

static void pairs(void) {
    CUdeviceptr pointer;
    for (int i = 0; i < 20; i++) {
        cuMemAlloc(&pointer, 2 * MIB);
        cuMemFree(pointer);
    }
}

static int calls_last(void) {
    if (start() != 0)
        return 255;
    double begin = seconds();
    pairs();
    double took_ns = (seconds() - begin) * 1e9;
    return simgpu_latency_ns() >= 1600000 && took_ns >= (double)simgpu_latency_ns();
}

/* 20 x 81 us by the table. That they last no longer without is told by the sum: a machine may. */
static void driver_calls_take_their_time(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_LATENCY", "card", calls_last)), 1);
}

/* The sum in percent of what the table says of twenty pairs. */
static int summed_latency(void) {
    uint64_t table_ns = 20 * (cost_ns(COST_MALLOC, 2 * MIB) + cost_ns(COST_FREE, 2 * MIB));
    if (simgpu_latency_ns() != 0 || start() != 0)
        return 255;
    pairs();
    return (int)(simgpu_latency_ns() * 100 / table_ns);
}

/* Of a pool that grows once for two blocks and is trimmed: in percent of what that costs. */
static int pool_latency(void) {
    uint64_t table_ns = cost_ns(COST_MALLOC, 32 * MIB) + cost_ns(COST_FREE, 32 * MIB);
    cuuint64_t keep = UINT64_MAX;
    CUdeviceptr first, second;
    CUmemoryPool pool;
    if (start() != 0 || cuDeviceGetMemPool(&pool, 0) != CUDA_SUCCESS)
        return 255;
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    cuMemAllocAsync(&first, 2 * MIB, NULL);
    cuMemAllocAsync(&second, 2 * MIB, NULL);
    cuMemFreeAsync(first, NULL);
    cuMemFreeAsync(second, NULL);
    cuCtxSynchronize();
    cuMemPoolTrimTo(pool, 0);
    return (int)(simgpu_latency_ns() * 100 / table_ns);
}

/* Of opening a row of handles and of ending it, by the number of handles: in percent. */
static int handles_latency(void) {
    enum { HANDLES = 8 };
    CUmemAllocationProp device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {device.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;
    if (start() != 0 || cuMemAddressReserve(&base, HANDLES * 2 * MIB, 0, 0, 0) != CUDA_SUCCESS)
        return 255;
    for (size_t i = 0; i < HANDLES; i++) {
        cuMemCreate(&handle, 2 * MIB, &device, 0);
        cuMemMap(base + i * 2 * MIB, 2 * MIB, 0, handle, 0);
    }
    unsigned long long before_ns = simgpu_latency_ns();
    cuMemSetAccess(base, HANDLES * 2 * MIB, &access, 1);
    cuMemUnmap(base, HANDLES * 2 * MIB);
    uint64_t table_ns =
        cost_of_handles_ns(COST_SET_ACCESS, HANDLES) + cost_of_handles_ns(COST_UNMAP, HANDLES);
    return (int)((simgpu_latency_ns() - before_ns) * 100 / table_ns);
}

static void driver_calls_are_summed(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_LATENCY", "card", summed_latency)), 100);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_LATENCY", "none", summed_latency)), 0);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_LATENCY", "card", pool_latency)), 100);
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_LATENCY", "card", handles_latency)), 100);
}

static int counted_refusals(void) {
    CUdeviceptr pointer;
    if (start() != 0 || cuMemAlloc(&pointer, 2 * MIB) != CUDA_SUCCESS || simgpu_refusals() != 0)
        return 255;
    for (int i = 0; i < 3; i++)
        cuMemAlloc(&pointer, 8ULL << 30);
    return (int)simgpu_refusals();
}

static void refusals_are_counted(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(child_with("SIMGPU_MEM", "3GiB", counted_refusals)), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_set),
        cmocka_unit_test(bad_values_cost_one_line),
        cmocka_unit_test(a_context_takes_what_is_set),
        cmocka_unit_test(devices_are_counted),
        cmocka_unit_test(peers_have_to_be_enabled),
        cmocka_unit_test(versions_are_set),
        cmocka_unit_test(every_nth_request_is_refused),
        cmocka_unit_test(long_copies_may_move_nothing),
        cmocka_unit_test(results_may_be_zeros),
        cmocka_unit_test(fabric_is_optional),
        cmocka_unit_test(strictness_can_abort),
        cmocka_unit_test(the_log_names_what_is_missing),
        cmocka_unit_test(the_log_goes_to_a_file),
        cmocka_unit_test(a_card_takes_its_time),
        cmocka_unit_test(driver_calls_take_their_time),
        cmocka_unit_test(driver_calls_are_summed),
        cmocka_unit_test(refusals_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
