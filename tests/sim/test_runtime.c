/* Tests of the simulated runtime: errors, devices, memory. What a test must not leave behind (a
 * broken device), and what needs a second process, runs in this program started again. */
#include "test_runtime.h"

#include <fcntl.h>
#include <sys/wait.h>

static const char *program;

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
    assert_ok(cudaDeviceReset());
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

/* --- what is not simulated --- */

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
    test_knobs();
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
        cmocka_unit_test(what_is_not_simulated_says_so_once),
        cmocka_unit_test(reset_frees_everything_and_use_goes_on),
    };
    return cmocka_run_group_tests_name("simulated runtime: memory", tests, NULL, NULL);
}
