/* Finds the driver and keeps what the runtime must remember for the process and for each thread:
 * the primary contexts, the current device and the last error. It must not link against the driver:
 * like the vendor's runtime it reaches it by dlopen, dlsym of cuGetProcAddress and function
 * pointers, because that is the road an interposer has to watch. */
#include "runtime.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct driver_table cu;
PFN_cuGetProcAddress_v12000 rt_get_proc_address;

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    cudaError_t load_error;
    int device_count;
    CUcontext primary[RT_MAX_DEVICES];
    /* Counts cudaDeviceReset calls, so that other threads notice that the context they were bound
     * to is gone. */
    atomic_uint resets[RT_MAX_DEVICES];
    /* An error after which the device does no more work, as CUDA documents for illegal addresses
     * and the like. */
    _Atomic(cudaError_t) sticky;
} process = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static __thread struct {
    int device;
    CUcontext bound;
    unsigned bound_resets;
    cudaError_t last_error;
} thread;

static CUresult missing_driver_function(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* A function's address is asked for by base name and the CUDA version its type belongs to. */
static void *look_up(const char *name, int version) {
    void *address = NULL;
    CUresult result =
        rt_get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, NULL);
    if (result == CUDA_SUCCESS && address)
        return address;
    return (void *)(uintptr_t)missing_driver_function;
}

static cudaError_t fill_table(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return cudaErrorInsufficientDriver;
    rt_get_proc_address =
        (PFN_cuGetProcAddress_v12000)(uintptr_t)dlsym(library, "cuGetProcAddress_v2");
    if (!rt_get_proc_address)
        return cudaErrorInsufficientDriver;
#define DRIVER(name, version) cu.name = (PFN_##name##_v##version)(uintptr_t)look_up(#name, version);
#include "driver.def"
#undef DRIVER
    return cudaSuccess;
}

static void load_once(void) {
    process.load_error = fill_table();
    if (process.load_error != cudaSuccess)
        return;
    process.load_error = (cudaError_t)cu.cuInit(0);
    if (process.load_error != cudaSuccess)
        return;
    process.load_error = (cudaError_t)cu.cuDeviceGetCount(&process.device_count);
    if (process.device_count > RT_MAX_DEVICES)
        process.device_count = RT_MAX_DEVICES;
}

cudaError_t rt_load(void) {
    pthread_once(&process.once, load_once);
    return process.load_error;
}

int rt_device_count(void) {
    return process.device_count;
}

unsigned rt_resets(int device) {
    return atomic_load(&process.resets[device]);
}

cudaError_t rt_primary_context(int device, CUcontext *context) {
    CUresult result = CUDA_SUCCESS;
    if (device < 0 || device >= process.device_count)
        return rt_fail(cudaErrorInvalidDevice);
    pthread_mutex_lock(&process.lock);
    if (!process.primary[device])
        result = cu.cuDevicePrimaryCtxRetain(&process.primary[device], device);
    *context = process.primary[device];
    pthread_mutex_unlock(&process.lock);
    return rt_result(result);
}

static cudaError_t bind_primary(int device) {
    unsigned resets = atomic_load(&process.resets[device]);
    CUcontext context = NULL;
    cudaError_t error = rt_primary_context(device, &context);
    if (error != cudaSuccess)
        return error;
    error = rt_result(cu.cuCtxSetCurrent(context));
    if (error != cudaSuccess)
        return error;
    thread.bound = context;
    thread.bound_resets = resets;
    return cudaSuccess;
}

/* True when this thread's context was made by us and cudaDeviceReset has ended it since. */
static bool bound_context_is_gone(CUcontext current) {
    return current == thread.bound &&
           thread.bound_resets != atomic_load(&process.resets[thread.device]);
}

cudaError_t rt_enter(void) {
    RT_LOAD();
    cudaError_t sticky = atomic_load(&process.sticky);
    if (sticky != cudaSuccess)
        return rt_fail(sticky);
    CUcontext current = NULL;
    cudaError_t error = rt_result(cu.cuCtxGetCurrent(&current));
    if (error != cudaSuccess)
        return error;
    if (!current || bound_context_is_gone(current))
        return bind_primary(thread.device);
    return cudaSuccess;
}

/* Errors that CUDA documents as leaving the process unable to use the device again. */
static bool is_sticky(cudaError_t error) {
    return error == cudaErrorIllegalAddress || error == cudaErrorLaunchTimeout ||
           error == cudaErrorAssert ||
           (error >= cudaErrorHardwareStackError && error <= cudaErrorLaunchFailure);
}

cudaError_t rt_fail(cudaError_t error) {
    if (error != cudaSuccess)
        thread.last_error = error;
    if (is_sticky(error))
        atomic_store(&process.sticky, error);
    return error;
}

cudaError_t rt_result(CUresult result) {
    return rt_fail((cudaError_t)result);
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = thread.last_error;
    if (!is_sticky(error))
        thread.last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return thread.last_error;
}

cudaError_t cudaGetDeviceCount(int *count) {
    if (!count)
        return rt_fail(cudaErrorInvalidValue);
    *count = 0;
    RT_LOAD();
    *count = process.device_count;
    return cudaSuccess;
}

/* A context that was made current through the driver API decides, as in the vendor's runtime. */
cudaError_t cudaGetDevice(int *device) {
    if (!device)
        return rt_fail(cudaErrorInvalidValue);
    RT_LOAD();
    CUcontext current = NULL;
    if (cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        return rt_result(cu.cuCtxGetDevice(device));
    *device = thread.device;
    return cudaSuccess;
}

/* Since CUDA 12 this also makes the primary context; before, the first call that needs one does. */
cudaError_t cudaSetDevice(int device) {
    RT_LOAD();
    if (device < 0 || device >= process.device_count)
        return rt_fail(cudaErrorInvalidDevice);
    thread.device = device;
#if CUDART_VERSION >= 12000
    return bind_primary(device);
#else
    if (process.primary[device])
        return bind_primary(device);
    return rt_result(cu.cuCtxSetCurrent(NULL));
#endif
}

cudaError_t cudaDeviceReset(void) {
    RT_LOAD();
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&process.lock);
    process.primary[device] = NULL;
    atomic_fetch_add(&process.resets[device], 1);
    CUresult result = cu.cuDevicePrimaryCtxReset(device);
    pthread_mutex_unlock(&process.lock);
    return rt_result(result);
}

/* One line for each name on standard error; every call in the log that SIMGPU_LOG_FILE names. */
static void say_unsupported(const char *name, const char *seen_before) {
    char line[160];
    int length = snprintf(line, sizeof line, "simgpu: %s is not simulated, it returns %s\n", name,
                          "cudaErrorNotSupported");
    const char *path = getenv("SIMGPU_LOG_FILE");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    ssize_t written = 0;
    if (file >= 0) {
        written = write(file, line, (size_t)length);
        close(file);
    }
    if (!seen_before)
        written += write(STDERR_FILENO, line, (size_t)length);
    (void)written;
}

int rt_unsupported(const char *name) {
    static const char *seen[1024];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < sizeof seen / sizeof *seen && seen[i] && seen[i] != name)
        i++;
    const char *seen_before = i < sizeof seen / sizeof *seen ? seen[i] : name;
    if (!seen_before)
        seen[i] = name;
    pthread_mutex_unlock(&lock);
    say_unsupported(name, seen_before);
    return (int)rt_fail(cudaErrorNotSupported);
}
