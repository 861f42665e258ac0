/* Tests of the simulated runtime: streams, events, pools, captured graphs, kernels and variables,
 * driver entry points. */
#include "test_runtime.h"

/* What nvcc-generated objects call; declared in crt/host_runtime.h, which only its output includes.
 */
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device_function,
                            const char *name, int thread_limit, void *thread_id, void *block_id,
                            void *block_dim, void *grid_dim, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *name,
                       int external, size_t size, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

/* --- streams, events, pools --- */

static void events_follow_their_stream(void **state) {
    (void)state;
    cudaStream_t stream = NULL;
    cudaEvent_t start = NULL;
    cudaEvent_t end = NULL;
    float milliseconds = -1;
    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaEventCreate(&start));
    assert_ok(cudaEventCreate(&end));
    assert_ok(cudaEventRecord(start, stream));
    hold(stream);
    assert_ok(cudaEventRecord(end, stream));
    assert_int_equal(cudaEventQuery(end), cudaErrorNotReady);
    release(stream);
    assert_ok(cudaEventSynchronize(end));
    assert_ok(cudaEventElapsedTime(&milliseconds, start, end));
    assert_true(milliseconds >= 0);
    (void)cudaGetLastError();
    assert_ok(cudaEventDestroy(start));
    assert_ok(cudaEventDestroy(end));
    assert_ok(cudaStreamDestroy(stream));
}

static void count_call(void *counter) {
    ++*(int *)counter;
}

static void host_functions_run_in_their_stream(void **state) {
    (void)state;
    cudaStream_t stream = NULL;
    int calls = 0;
    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaLaunchHostFunc(stream, count_call, &calls));
    assert_ok(cudaStreamSynchronize(stream));
    assert_int_equal(calls, 1);
    assert_ok(cudaStreamDestroy(stream));
}

static uint64_t pool_bytes(cudaMemPool_t pool, enum cudaMemPoolAttr attribute) {
    uint64_t bytes = 0;
    assert_ok(cudaMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
}

static void a_pool_keeps_what_its_threshold_says(void **state) {
    (void)state;
    cudaMemPool_t pool = NULL;
    void *pointer = NULL;
    uint64_t keep = UINT64_MAX;
    assert_ok(cudaDeviceGetDefaultMemPool(&pool, 0));
    assert_ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    assert_ok(cudaMallocAsync(&pointer, 32 * MIB, NULL));
    assert_true(pool_bytes(pool, cudaMemPoolAttrUsedMemCurrent) >= 32 * MIB);
    assert_ok(cudaFreeAsync(pointer, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_int_equal(pool_bytes(pool, cudaMemPoolAttrUsedMemCurrent), 0);
    assert_true(pool_bytes(pool, cudaMemPoolAttrReservedMemCurrent) >= 32 * MIB);
    assert_ok(cudaMemPoolTrimTo(pool, 0));
    assert_int_equal(pool_bytes(pool, cudaMemPoolAttrReservedMemCurrent), 0);
}

/* --- capture and graphs --- */

static enum cudaStreamCaptureStatus capture_status(cudaStream_t stream, unsigned long long *id) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
#if CUDART_VERSION >= 13000
    assert_ok(cudaStreamGetCaptureInfo(stream, &status, id, NULL, NULL, NULL, NULL));
#elif CUDART_VERSION >= 12030
    assert_ok(cudaStreamGetCaptureInfo_v3(stream, &status, id, NULL, NULL, NULL, NULL));
#else
    assert_ok(cudaStreamGetCaptureInfo_v2(stream, &status, id, NULL, NULL, NULL));
#endif
    return status;
}

static void captured_work_runs_when_its_graph_is_launched(void **state) {
    (void)state;
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    unsigned char *pointer = NULL;
    unsigned char byte = 0;
    unsigned long long id = 0;
    size_t nodes = 0;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaMalloc((void **)&pointer, 64));
    assert_ok(cudaMemset(pointer, 0, 64));
    assert_int_equal(capture_status(stream, &id), cudaStreamCaptureStatusNone);
    assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_ok(cudaMemsetAsync(pointer, 7, 64, stream));
    assert_int_equal(capture_status(stream, &id), cudaStreamCaptureStatusActive);
    assert_true(id != 0);
    assert_ok(cudaStreamEndCapture(stream, &graph));
    assert_ok(cudaMemcpy(&byte, pointer, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(byte, 0);
    assert_ok(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 1);
    assert_ok(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cudaGraphLaunch(executable, stream));
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaMemcpy(&byte, pointer, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(byte, 7);
    assert_ok(cudaGraphExecDestroy(executable));
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaFree(pointer));
    assert_ok(cudaStreamDestroy(stream));
}

static void allocating_while_capturing_ends_the_capture(void **state) {
    (void)state;
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    void *pointer = NULL;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaMalloc(&pointer, MIB), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    assert_ok(cudaStreamDestroy(stream));
}

static void graph_memory_is_told(void **state) {
    (void)state;
    uint64_t bytes = 1;
    assert_ok(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(cudaDeviceGraphMemTrim(0));
}

/* --- code --- */

static char kernel_stub;
static char unknown_stub;
static char variable_stub;

static void **register_code(void) {
    static const char image[64] = "no code";
    void **handle = __cudaRegisterFatBinary((void *)(uintptr_t)image);
    __cudaRegisterFunction(handle, &kernel_stub, NULL, "test_kernel", -1, NULL, NULL, NULL, NULL,
                           NULL);
    __cudaRegisterVar(handle, &variable_stub, NULL, "test_variable", 0, 16, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    return handle;
}

static cudaError_t launch(const void *stub, unsigned grid, unsigned block) {
    dim3 grid_dim = {grid, 1, 1};
    dim3 block_dim = {block, 1, 1};
    return cudaLaunchKernel(stub, grid_dim, block_dim, NULL, 0, NULL);
}

static void kernels_are_launched_by_their_stub(void **state) {
    (void)state;
    void **code = register_code();
    assert_ok(launch(&kernel_stub, 1, 128));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(launch(&unknown_stub, 1, 128), cudaErrorInvalidDeviceFunction);
    assert_int_equal(launch(&kernel_stub, 0, 128), cudaErrorInvalidConfiguration);
    assert_int_equal(launch(&kernel_stub, 1, 2048), cudaErrorInvalidConfiguration);
    assert_int_equal(launch(&variable_stub, 1, 1), cudaErrorInvalidDeviceFunction);
    struct cudaFuncAttributes attributes;
    assert_ok(cudaFuncGetAttributes(&attributes, &kernel_stub));
    assert_int_equal(attributes.maxThreadsPerBlock, 1024);
    assert_int_equal(attributes.binaryVersion, 86);
    __cudaUnregisterFatBinary(code);
    assert_int_equal(launch(&kernel_stub, 1, 128), cudaErrorInvalidDeviceFunction);
    (void)cudaGetLastError();
}

static void kernels_survive_a_reset(void **state) {
    (void)state;
    void **code = register_code();
    assert_ok(launch(&kernel_stub, 1, 32));
    assert_ok(cudaDeviceReset());
    assert_ok(launch(&kernel_stub, 1, 32));
    assert_ok(cudaDeviceSynchronize());
    __cudaUnregisterFatBinary(code);
}

static void device_variables_hold_their_bytes_only(void **state) {
    (void)state;
    void **code = register_code();
    char out[16] = "";
    size_t size = 0;
    assert_ok(cudaGetSymbolSize(&size, &variable_stub));
    assert_int_equal(size, 16);
    assert_ok(cudaMemcpyToSymbol(&variable_stub, "variable", 9, 4, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpyFromSymbol(out, &variable_stub, 9, 4, cudaMemcpyDeviceToHost));
    assert_string_equal(out, "variable");
    assert_int_equal(cudaMemcpyToSymbol(&variable_stub, "variable", 9, 8, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaGetSymbolSize(&size, &kernel_stub), cudaErrorInvalidSymbol);
    (void)cudaGetLastError();
    __cudaUnregisterFatBinary(code);
}

static void many_registered_kernels_are_found(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static char stubs[COUNT];
    static const char image[64] = "no code";
    void **handle = __cudaRegisterFatBinary((void *)(uintptr_t)image);
    for (int i = 0; i < COUNT; i++)
        __cudaRegisterFunction(handle, &stubs[i], NULL, "same_name", -1, NULL, NULL, NULL, NULL,
                               NULL);
    for (int i = 0; i < COUNT; i += 97)
        assert_ok(launch(&stubs[i], 1, 1));
    assert_ok(cudaDeviceSynchronize());
    __cudaUnregisterFatBinary(handle);
}

static void call_configurations_are_a_stack(void **state) {
    (void)state;
    dim3 one = {1, 1, 1};
    dim3 two = {2, 2, 2};
    dim3 grid;
    dim3 block;
    size_t shared = 0;
    cudaStream_t stream = NULL;
    assert_int_equal(__cudaPushCallConfiguration(one, two, 16, NULL), 0);
    assert_int_equal(__cudaPushCallConfiguration(two, one, 32, NULL), 0);
    assert_ok(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_int_equal(grid.x, 2);
    assert_int_equal(shared, 32);
    assert_ok(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_int_equal(block.x, 2);
    assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream),
                     cudaErrorMissingConfiguration);
    (void)cudaGetLastError();
}

/* --- entry points --- */

static void driver_entry_points_are_given_out(void **state) {
    (void)state;
    void *function = NULL;
#if CUDART_VERSION < 12000
    assert_ok(cudaGetDriverEntryPoint("cuMemCreate", &function, cudaEnableDefault));
    assert_non_null(function);
    assert_int_equal(cudaGetDriverEntryPoint("cuNoSuchThing", &function, cudaEnableDefault),
                     cudaErrorSymbolNotFound);
#else
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    assert_ok(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 12000, cudaEnableDefault,
                                               &found));
    assert_int_equal(found, cudaDriverEntryPointSuccess);
    assert_non_null(function);
    assert_ok(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 12000, cudaEnableDefault,
                                               &found));
    assert_int_equal(found, cudaDriverEntryPointSymbolNotFound);
    assert_null(function);
    assert_ok(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 9000, cudaEnableDefault,
                                               &found));
    assert_int_equal(found, cudaDriverEntryPointVersionNotSufficent);
#endif
    (void)cudaGetLastError();
}

int main(void) {
    test_knobs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_follow_their_stream),
        cmocka_unit_test(host_functions_run_in_their_stream),
        cmocka_unit_test(a_pool_keeps_what_its_threshold_says),
        cmocka_unit_test(captured_work_runs_when_its_graph_is_launched),
        cmocka_unit_test(allocating_while_capturing_ends_the_capture),
        cmocka_unit_test(graph_memory_is_told),
        cmocka_unit_test(kernels_are_launched_by_their_stub),
        cmocka_unit_test(kernels_survive_a_reset),
        cmocka_unit_test(device_variables_hold_their_bytes_only),
        cmocka_unit_test(many_registered_kernels_are_found),
        cmocka_unit_test(call_configurations_are_a_stack),
        cmocka_unit_test(driver_entry_points_are_given_out),
    };
    return cmocka_run_group_tests_name("simulated runtime: work", tests, NULL, NULL);
}
