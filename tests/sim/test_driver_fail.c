/* SIMGPU_FAIL and SIMGPU_CALLS: calls that fail on purpose, and are counted. Each case runs in a
 * child. */
#include "test_driver_child.h"

/* A digit for each of three calls of cuMemAlloc: 1: it was refused; 2: one was so far. */
static int answers(void) {
    CUdeviceptr pointer;
    int digits = 0;
    if (start() != 0)
        return 255;
    for (int i = 0; i < 3; i++)
        digits = digits * 4 + (cuMemAlloc(&pointer, 4096) == CUDA_ERROR_OUT_OF_MEMORY) +
                 2 * (simgpu_refusals() > 0);
    return digits;
}

static int in_base_4(int a, int b, int c) {
    return (a * 4 + b) * 4 + c;
}

static int code_of_query(void) {
    int code = start() == 0 ? (int)cuStreamQuery(NULL) : 255;
    return cuStreamQuery(NULL) == CUDA_SUCCESS ? code & 255 : 255;
}

static int context_after_illegal_address(void) {
    CUdeviceptr pointer;
    CUevent event;
    int wrong = start() != 0 || cuMemAlloc(&pointer, 4096) != CUDA_ERROR_ILLEGAL_ADDRESS;
    return wrong + (cuEventCreate(&event, 0) != CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int events_recorded(void) {
    CUevent event;
    if (start() != 0 || cuEventCreate(&event, 0) != CUDA_SUCCESS)
        return 255;
    return (cuEventRecordWithFlags(event, NULL, 0) == CUDA_SUCCESS) +
           2 * (cuEventRecord(event, NULL) == CUDA_SUCCESS);
}

static void calls_fail_on_purpose(void **state) {
    (void)state;
    const char *fail = "SIMGPU_FAIL";
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuMemAlloc:2", answers)), in_base_4(0, 3, 2));
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuMemAlloc_v2:2+", answers)),
                     in_base_4(0, 3, 3));
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuMemAlloc:1 cuMemAlloc:3", answers)),
                     in_base_4(3, 2, 3));
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuMemAllocAsync:1 cuMemAl:1", answers)), 0);
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuStreamQuery:1:4", code_of_query)), 4);
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuEventRecord:1", events_recorded)), 1);
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuEventRecordWithFlags:1", events_recorded)), 2);
    assert_int_equal(
        WEXITSTATUS(child_with(fail, "cuMemAlloc:1:700", context_after_illegal_address)), 0);
    assert_string_equal(said, "");
}

static void only_the_calls_of_one_object_fail(void **state) {
    (void)state;
    const char *fail = "SIMGPU_FAIL";
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuMemAlloc:1@test_driver_fail", answers)),
                     in_base_4(3, 2, 2));
    assert_int_equal(WEXITSTATUS(child_with(fail, "cuMemAlloc:1@libnobody.so", answers)), 0);
}

static void what_is_no_failure_is_left_out(void **state) {
    (void)state;
    static const char *const bad[] = {"cuMemAlloc", "cuMemAlloc:0", "cuMemAlloc:1:0",
                                      "cuMemAlloc:1x", "cuMemAlloc:-"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(WEXITSTATUS(child_with("SIMGPU_FAIL", bad[i], answers)), 0);
        assert_non_null(strstr(said, "is not CALL:N[+][:CODE][@OBJECT]"));
    }
}

static int three_calls(void) {
    answers();
    exit(0);
}

static void calls_are_counted(void **state) {
    (void)state;
    char path[] = "/tmp/simgpu-calls-XXXXXX", text[4096] = "";
    int file = mkstemp(path);
    setenv("SIMGPU_FAIL", "cuMemAlloc:3", 1);
    child_with("SIMGPU_CALLS", path, three_calls);
    unsetenv("SIMGPU_FAIL");
    assert_true(read(file, text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "call cuMemAlloc_v2 test_driver_fail 3\n"));
    assert_non_null(strstr(text, "failed 1\nused 2097152\n"));
    close(file);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_fail_on_purpose),
        cmocka_unit_test(only_the_calls_of_one_object_fail),
        cmocka_unit_test(what_is_no_failure_is_left_out),
        cmocka_unit_test(calls_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
