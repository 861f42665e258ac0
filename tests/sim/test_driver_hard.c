/* What a card does that is hard on programs: what it is for certain, and the settings that make the
 * device slower, fuller and stricter. Each case runs in a child, which may leave a broken context. */
#include "test_driver_child.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_fault_mappings_fail_as_all_does),
        cmocka_unit_test(nothing_works_once_the_process_exits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
