/* Tests of the simulated runtime, built once for each CUDA major against that major's own headers.
 * They run on the simulated driver, whose knobs main() sets; what a test must not leave behind (a
 * broken device) runs in a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB             ((size_t)1 << 20)
#define DEVICE_BYTES    (1024 * MIB)
#define assert_ok(call) assert_int_equal((call), cudaSuccess)

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

static const char *program;

/* A function of the simulated driver's own test interface (driver/simgpu.h). */
static void *driver_function(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(driver);
    void *function = dlsym(driver, name);
    assert_non_null(function);
    return function;
}

typedef int stream_function(cudaStream_t stream);

static void hold(cudaStream_t stream) {
    assert_int_equal(((stream_function *)(uintptr_t)driver_function("simgpu_hold"))(stream), 0);
}

static void release(cudaStream_t stream) {
    assert_int_equal(((stream_function *)(uintptr_t)driver_function("simgpu_release"))(stream), 0);
}

static size_t free_bytes(void) {
    size_t free_now = 0;
    size_t total = 0;
    assert_ok(cudaMemGetInfo(&free_now, &total));
    return free_now;
}

/* --- errors --- */

static void last_error_is_kept_until_read(void **state) {
    (void)state;
    void *pointer = NULL;
    assert_int_equal(cudaMalloc(&pointer, 2 * DEVICE_BYTES), cudaErrorMemoryAllocation);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    assert_ok(cudaMalloc(&pointer, MIB));
    assert_ok(cudaFree(pointer));
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void *read_last_error(void *out) {
    *(cudaError_t *)out = cudaGetLastError();
    return NULL;
}

static void last_error_belongs_to_its_thread(void **state) {
    (void)state;
    pthread_t other;
    cudaError_t seen = cudaErrorUnknown;
    assert_int_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    assert_int_equal(pthread_create(&other, NULL, read_last_error, &seen), 0);
    pthread_join(other, NULL);
    assert_int_equal(seen, cudaSuccess);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
}

static void not_ready_is_an_answer_and_the_last_error(void **state) {
    (void)state;
    cudaStream_t stream = NULL;
    void *pointer = NULL;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaMalloc(&pointer, MIB));
    hold(stream);
    assert_ok(cudaMemsetAsync(pointer, 1, MIB, stream));
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    release(stream);
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaStreamQuery(stream));
    assert_ok(cudaFree(pointer));
    assert_ok(cudaStreamDestroy(stream));
}

static void errors_have_names_and_texts(void **state) {
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidConfiguration),
                        "invalid configuration argument");
    assert_string_equal(cudaGetErrorName((cudaError_t)98765), "unrecognized error code");
}

/* Runs this program again with one argument and gives its exit status. */
static int run_self(const char *argument, const char *second) {
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, argument, second, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The child: an illegal access breaks the device for good. Exit status: the number of the check
 * that failed, 0 for none. */
static int sticky_child(void) {
    typedef int touch_function(cudaStream_t, unsigned long long, size_t, unsigned char);
    void *pointer = NULL;
    if (cudaMalloc(&pointer, 4 * MIB) != cudaSuccess || cudaFree(pointer) != cudaSuccess)
        return 1;
    touch_function *touch = (touch_function *)(uintptr_t)driver_function("simgpu_touch");
    if (touch(NULL, (uintptr_t)pointer, 16, 1) != 0)
        return 2;
    if (cudaDeviceSynchronize() != cudaErrorIllegalAddress)
        return 3;
    if (cudaGetLastError() != cudaErrorIllegalAddress ||
        cudaGetLastError() != cudaErrorIllegalAddress)
        return 4;
    if (cudaMalloc(&pointer, MIB) != cudaErrorIllegalAddress)
        return 5;
    return cudaStreamQuery(NULL) == cudaErrorIllegalAddress ? 0 : 6;
}

static void an_illegal_access_is_sticky(void **state) {
    (void)state;
    assert_int_equal(run_self("--sticky", NULL), 0);
}

/* --- devices --- */

static void devices_are_those_of_the_knobs(void **state) {
    (void)state;
    int count = 0;
    int device = -1;
    struct cudaDeviceProp properties;
    assert_ok(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    assert_ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    assert_ok(cudaGetDeviceProperties(&properties, 1));
    assert_int_equal(properties.totalGlobalMem, DEVICE_BYTES);
    assert_int_equal(properties.major, 8);
    assert_int_equal(properties.minor, 6);
    assert_true(properties.multiProcessorCount > 0);
    assert_int_equal(properties.maxThreadsPerBlock, 1024);
    assert_true(strlen(properties.name) > 0);
    int version = 0;
    assert_ok(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, CUDART_VERSION);
    assert_int_equal(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
    (void)cudaGetLastError();
}

static void each_device_has_its_own_memory(void **state) {
    (void)state;
    void *pointer = NULL;
    assert_ok(cudaSetDevice(0));
    size_t before = free_bytes();
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaMalloc(&pointer, 100 * MIB));
    assert_true(free_bytes() <= DEVICE_BYTES - 100 * MIB);
    assert_ok(cudaSetDevice(0));
    assert_int_equal(free_bytes(), before);
    assert_ok(cudaFree(pointer));
}

static void *use_device_0(void *out) {
    int device = -1;
    cudaGetDevice(&device);
    *(int *)out = device;
    return NULL;
}

static void the_current_device_belongs_to_its_thread(void **state) {
    (void)state;
    pthread_t other;
    int seen = -1;
    assert_ok(cudaSetDevice(1));
    assert_int_equal(pthread_create(&other, NULL, use_device_0, &seen), 0);
    pthread_join(other, NULL);
    assert_int_equal(seen, 0);
    assert_ok(cudaSetDevice(0));
}

static void *allocate_after_reset(void *out) {
    void *pointer = NULL;
    cudaError_t *errors = out;
    errors[0] = cudaMalloc(&pointer, MIB);
    errors[1] = cudaFree(pointer);
    return NULL;
}

static void reset_frees_everything_and_use_goes_on(void **state) {
    (void)state;
    void *pointer = NULL;
    cudaError_t errors[2] = {cudaErrorUnknown, cudaErrorUnknown};
    pthread_t other;
    size_t before = free_bytes();
    assert_ok(cudaMalloc(&pointer, 200 * MIB));
    assert_ok(cudaDeviceReset());
    assert_int_equal(free_bytes(), before);
    assert_int_equal(cudaFree(pointer), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    assert_int_equal(pthread_create(&other, NULL, allocate_after_reset, errors), 0);
    pthread_join(other, NULL);
    assert_ok(errors[0]);
    assert_ok(errors[1]);
}

/* --- memory --- */

static void nothing_is_allocated_for_zero_bytes(void **state) {
    (void)state;
    void *pointer = &pointer;
    assert_ok(cudaFree(NULL));
    size_t before = free_bytes();
    assert_ok(cudaMalloc(&pointer, 0));
    assert_null(pointer);
    assert_ok(cudaFreeHost(NULL));
    assert_int_equal(free_bytes(), before);
    assert_int_equal(cudaMalloc(NULL, MIB), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void memory_is_accounted_and_freed_once(void **state) {
    (void)state;
    void *pointer = NULL;
    size_t before = free_bytes();
    assert_ok(cudaMalloc(&pointer, 64 * MIB));
    assert_int_equal(before - free_bytes(), 64 * MIB);
    assert_ok(cudaFree(pointer));
    assert_int_equal(free_bytes(), before);
    assert_int_equal(cudaFree(pointer), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void pointers_are_told_apart(void **state) {
    (void)state;
    struct cudaPointerAttributes attributes;
    void *device = NULL;
    void *pinned = NULL;
    void *managed = NULL;
    int plain = 0;
    assert_ok(cudaMalloc(&device, MIB));
    assert_ok(cudaMallocHost(&pinned, MIB));
    assert_ok(cudaMallocManaged(&managed, MIB, cudaMemAttachGlobal));
    assert_ok(cudaPointerGetAttributes(&attributes, (char *)device + 100));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);
    assert_int_equal(attributes.device, 0);
    assert_ok(cudaPointerGetAttributes(&attributes, pinned));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    assert_ok(cudaPointerGetAttributes(&attributes, managed));
    assert_int_equal(attributes.type, cudaMemoryTypeManaged);
    assert_ok(cudaPointerGetAttributes(&attributes, &plain));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    assert_ok(cudaFree(managed));
    assert_ok(cudaFreeHost(pinned));
    assert_ok(cudaFree(device));
}

static void host_memory_is_registered_once(void **state) {
    (void)state;
    struct cudaPointerAttributes attributes;
    size_t size = 4 * MIB;
    void *memory = aligned_alloc(4096, size);
    assert_ok(cudaHostRegister(memory, size, cudaHostRegisterDefault));
    assert_int_equal(cudaHostRegister(memory, size, cudaHostRegisterDefault),
                     cudaErrorHostMemoryAlreadyRegistered);
    assert_ok(cudaPointerGetAttributes(&attributes, memory));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    assert_ok(cudaHostUnregister(memory));
    assert_int_equal(cudaHostUnregister(memory), cudaErrorHostMemoryNotRegistered);
    (void)cudaGetLastError();
    free(memory);
}

static void copies_move_what_they_say(void **state) {
    (void)state;
    char out[64] = "";
    void *first = NULL;
    void *second = NULL;
    assert_ok(cudaMalloc(&first, 64));
    assert_ok(cudaMalloc(&second, 64));
    assert_ok(cudaMemcpy(first, "simulated", 10, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy(second, first, 10, cudaMemcpyDeviceToDevice));
    assert_ok(cudaMemcpy(out, second, 10, cudaMemcpyDefault));
    assert_string_equal(out, "simulated");
    assert_ok(cudaMemset(second, 'x', 4));
    assert_ok(cudaMemcpy(out, second, 10, cudaMemcpyDeviceToHost));
    assert_string_equal(out, "xxxxlated");
    assert_ok(cudaMemcpy(NULL, NULL, 0, cudaMemcpyDefault));
    assert_int_equal(cudaMemcpy(second, first, 10, (enum cudaMemcpyKind)77),
                     cudaErrorInvalidMemcpyDirection);
    (void)cudaGetLastError();
    assert_ok(cudaFree(first));
    assert_ok(cudaFree(second));
}

static void copies_of_rows_keep_to_their_pitch(void **state) {
    (void)state;
    const char in[2][4] = {"abc", "def"};
    char out[2][4] = {"", ""};
    void *pointer = NULL;
    size_t pitch = 0;
    assert_ok(cudaMallocPitch(&pointer, &pitch, 4, 2));
    assert_true(pitch >= 4);
    assert_ok(cudaMemcpy2D(pointer, pitch, in, 4, 4, 2, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy2D(out, 4, pointer, pitch, 4, 2, cudaMemcpyDeviceToHost));
    assert_memory_equal(out, in, sizeof in);
    assert_int_equal(cudaMemcpy2D(pointer, pitch, in, 3, 4, 2, cudaMemcpyHostToDevice),
                     cudaErrorInvalidPitchValue);
    (void)cudaGetLastError();
    assert_ok(cudaFree(pointer));
}

static void peers_copy_between_devices(void **state) {
    (void)state;
    char out[8] = "";
    void *here = NULL;
    void *there = NULL;
    assert_ok(cudaMalloc(&here, 64));
    assert_ok(cudaMemcpy(here, "peer", 5, cudaMemcpyHostToDevice));
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaMalloc(&there, 64));
    assert_ok(cudaMemcpyPeer(there, 1, here, 0, 5));
    assert_ok(cudaMemcpy(out, there, 5, cudaMemcpyDeviceToHost));
    assert_string_equal(out, "peer");
    assert_int_equal(cudaMemcpyPeer(there, 7, here, 0, 5), cudaErrorInvalidDevice);
    (void)cudaGetLastError();
    assert_ok(cudaFree(there));
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaFree(here));
}

/* The child opens the parent's memory by its handle and reads the text in it. */
static int ipc_child(const char *hex) {
    cudaIpcMemHandle_t handle;
    char text[16] = "";
    void *pointer = NULL;
    for (size_t i = 0; i < sizeof handle; i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        ((unsigned char *)&handle)[i] = (unsigned char)byte;
    }
    if (cudaIpcOpenMemHandle(&pointer, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess)
        return 1;
    if (cudaMemcpy(text, pointer, 7, cudaMemcpyDeviceToHost) != cudaSuccess)
        return 2;
    if (strcmp(text, "shared") != 0)
        return 3;
    return cudaIpcCloseMemHandle(pointer) == cudaSuccess ? 0 : 4;
}

static void another_process_opens_shared_memory(void **state) {
    (void)state;
    cudaIpcMemHandle_t handle;
    char hex[2 * sizeof handle + 1];
    void *pointer = NULL;
    assert_ok(cudaMalloc(&pointer, 4 * MIB));
    assert_ok(cudaMemcpy(pointer, "shared", 7, cudaMemcpyHostToDevice));
    assert_ok(cudaIpcGetMemHandle(&handle, pointer));
    for (size_t i = 0; i < sizeof handle; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((unsigned char *)&handle)[i]);
    assert_int_equal(run_self("--ipc", hex), 0);
    assert_ok(cudaFree(pointer));
}

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

/* --- entry points, and what is not simulated --- */

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

/* The child calls a function without a body twice; its standard error goes to the file that is
 * named. */
static int unsupported_child(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cudaArray_t array = NULL;
    struct cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    if (dup2(file, STDERR_FILENO) < 0)
        return 1;
    for (int i = 0; i < 2; i++) {
        if (cudaMallocArray(&array, &format, 16, 16, 0) != cudaErrorNotSupported)
            return 2;
    }
    return cudaGetLastError() == cudaErrorNotSupported ? 0 : 3;
}

static void what_is_not_simulated_says_so_once(void **state) {
    (void)state;
    char path[] = "/tmp/simgpu-test-XXXXXX";
    char text[512] = "";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(run_self("--unsupported", path), 0);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    unlink(path);
    assert_string_equal(text, "simgpu: cudaMallocArray is not simulated, it returns "
                              "cudaErrorNotSupported\n");
}

int main(int argc, char **argv) {
    program = argv[0];
    setenv("SIMGPU_MEM", "1GiB", 1);
    setenv("SIMGPU_DEVICES", "2", 1);
    setenv("SIMGPU_CC", "8.6", 1);
    unsetenv("SIMGPU_DATA_LIMIT");
    unsetenv("SIMGPU_D2H_ZERO");
    if (argc > 1 && strcmp(argv[1], "--sticky") == 0)
        return sticky_child();
    if (argc > 2 && strcmp(argv[1], "--ipc") == 0)
        return ipc_child(argv[2]);
    if (argc > 2 && strcmp(argv[1], "--unsupported") == 0)
        return unsupported_child(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_error_is_kept_until_read),
        cmocka_unit_test(last_error_belongs_to_its_thread),
        cmocka_unit_test(not_ready_is_an_answer_and_the_last_error),
        cmocka_unit_test(errors_have_names_and_texts),
        cmocka_unit_test(an_illegal_access_is_sticky),
        cmocka_unit_test(devices_are_those_of_the_knobs),
        cmocka_unit_test(each_device_has_its_own_memory),
        cmocka_unit_test(the_current_device_belongs_to_its_thread),
        cmocka_unit_test(nothing_is_allocated_for_zero_bytes),
        cmocka_unit_test(memory_is_accounted_and_freed_once),
        cmocka_unit_test(pointers_are_told_apart),
        cmocka_unit_test(host_memory_is_registered_once),
        cmocka_unit_test(copies_move_what_they_say),
        cmocka_unit_test(copies_of_rows_keep_to_their_pitch),
        cmocka_unit_test(peers_copy_between_devices),
        cmocka_unit_test(another_process_opens_shared_memory),
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
        cmocka_unit_test(what_is_not_simulated_says_so_once),
        cmocka_unit_test(reset_frees_everything_and_use_goes_on),
    };
    return cmocka_run_group_tests_name("simulated runtime", tests, NULL, NULL);
}
