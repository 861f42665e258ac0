/* Names of the simulated driver: everything public is there, look-ups answer as documented, and
 * what is not simulated says so. Run with the path of the generated list of names. */
#include "test_driver.h"

#include <dlfcn.h>

static const char *names_path;

static void every_public_name_is_exported(void **state) {
    (void)state;
    char name[200];
    int count = 0;
    FILE *file = fopen(names_path, "r");
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(file);
    assert_non_null(library);
    while (fscanf(file, "%199s", name) == 1) {
        if (dlsym(library, name) == NULL)
            fail_msg("%s is missing", name);
        count++;
    }
    fclose(file);
    assert_true(count > 500);
}

static void *look_up(const char *name, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status) {
    void *function = (void *)1;
    ok(cuGetProcAddress(name, &function, version, flags, status));
    return function;
}

static void versions_choose_the_form(void **state) {
    (void)state;
    CUdriverProcAddressQueryResult status;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_ptr_equal(look_up("cuGetProcAddress", 11030, 0, &status),
                     dlsym(library, "cuGetProcAddress"));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_ptr_equal(look_up("cuGetProcAddress", 12000, 0, NULL),
                     dlsym(library, "cuGetProcAddress_v2"));
    assert_ptr_equal(look_up("cuMemAlloc", 12000, 0, NULL), dlsym(library, "cuMemAlloc_v2"));
    assert_ptr_equal(look_up("cuMemAlloc", 2000, 0, NULL), dlsym(library, "cuMemAlloc"));
    assert_ptr_equal(look_up("cuStreamGetCaptureInfo", 11030, 0, NULL),
                     dlsym(library, "cuStreamGetCaptureInfo_v2"));
    assert_ptr_equal(look_up("cuCtxCreate", 13000, 0, NULL), dlsym(library, "cuCtxCreate_v4"));
    assert_ptr_equal(look_up("cuEventElapsedTime", 12080, 0, NULL),
                     dlsym(library, "cuEventElapsedTime_v2"));
}

static void flags_choose_the_default_stream(void **state) {
    (void)state;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    cuuint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    assert_ptr_equal(look_up("cuMemcpyAsync", 12000, own, NULL),
                     dlsym(library, "cuMemcpyAsync_ptsz"));
    assert_ptr_equal(look_up("cuMemcpyHtoD", 12000, own, NULL),
                     dlsym(library, "cuMemcpyHtoD_v2_ptds"));
    assert_ptr_equal(look_up("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL),
                     dlsym(library, "cuMemcpyHtoD_v2"));
    assert_ptr_equal(look_up("cuMemAlloc", 12000, own, NULL), dlsym(library, "cuMemAlloc_v2"));
}

static void failures_are_told_apart(void **state) {
    (void)state;
    CUdriverProcAddressQueryResult status;
    void *function;
    assert_null(look_up("cuNoSuchThing", 12000, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(look_up("", 12000, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(look_up("cuMemAllocAsync", 11010, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    fails(cuGetProcAddress("cuInit", &function, 99000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuGetProcAddress(NULL, &function, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuGetProcAddress("cuInit", NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuGetProcAddress("cuInit", &function, 12000, 8, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void the_old_form_reports_missing_names(void **state) {
    (void)state;
    typedef CUresult old_form(const char *, void **, int, cuuint64_t);
    old_form *old = (old_form *)look_up("cuGetProcAddress", 11030, 0, NULL);
    void *function;
    ok(old("cuInit", &function, 11030, 0));
    assert_ptr_equal(function, look_up("cuInit", 12000, 0, NULL));
    fails(old("cuNoSuchThing", &function, 11030, 0), CUDA_ERROR_NOT_FOUND);
}

static void unfinished_business_is_not_supported(void **state) {
    (void)state;
    CUexternalMemory memory;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {0};
    fails(cuImportExternalMemory(&memory, &description), CUDA_ERROR_NOT_SUPPORTED);
}

static void undocumented_tables_are_refused(void **state) {
    (void)state;
    const void *table = "";
    CUuuid id = {{0}};
    fails(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
    assert_null(table);
}

static void errors_have_names(void **state) {
    (void)state;
    const char *text;
    ok(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    ok(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    fails(cuGetErrorName((CUresult)54321, &text), CUDA_ERROR_INVALID_VALUE);
    assert_null(text);
}

/* A _ptsz form means the thread's own stream by NULL; its neighbour means the legacy one. */
static void per_thread_forms_use_the_own_stream(void **state) {
    (void)state;
    typedef CUresult fill_form(CUdeviceptr, unsigned char, size_t, CUstream);
    cuuint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    fill_form *fill = (fill_form *)look_up("cuMemsetD8Async", 12000, own, NULL);
    CUdeviceptr pointer;
    ok(cuMemAlloc(&pointer, 16));
    ok(simgpu_hold(CU_STREAM_PER_THREAD));
    ok(fill(pointer, 1, 16, NULL));
    fails(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    fails(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    ok(simgpu_release(CU_STREAM_PER_THREAD));
    ok(cuCtxSynchronize());
    assert_int_equal(byte_at(pointer), 1);
}

static void nothing_works_before_cuinit(void **state) {
    (void)state;
    int count, version;
    CUdeviceptr pointer;
    fails(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    fails(cuMemAlloc(&pointer, 1), CUDA_ERROR_NOT_INITIALIZED);
    ok(cuDriverGetVersion(&version));
    assert_int_equal(version, 13000);
    ok(cuInit(0));
    ok(cuDeviceGetCount(&count));
    fails(cuMemAlloc(&pointer, 1), CUDA_ERROR_INVALID_CONTEXT);
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s NAMES\n", arguments[0]);
        return 2;
    }
    names_path = arguments[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_works_before_cuinit), /* First. */
        cmocka_unit_test(every_public_name_is_exported),
        cmocka_unit_test(versions_choose_the_form),
        cmocka_unit_test(flags_choose_the_default_stream),
        cmocka_unit_test(failures_are_told_apart),
        cmocka_unit_test(the_old_form_reports_missing_names),
        cmocka_unit_test(undocumented_tables_are_refused),
        cmocka_unit_test(errors_have_names),
        device_test(unfinished_business_is_not_supported),
        device_test(per_thread_forms_use_the_own_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
