/* See work.h. The driver is reached by dlopen, as the vendor's math libraries do; no vendor header
 * is needed. */
#include "work.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { NAMES_KEPT = 256 };

/* The driver's public functions as cuda.h declares them, with handles as plain pointers; 0 is
 * success. */
typedef int library_load_fn(void **library, const void *code, int *options, void **values,
                            unsigned count, int *library_options, void **library_values,
                            unsigned library_count);
typedef int get_kernel_fn(void **kernel, void *library, const char *name);
typedef int get_function_fn(void **function, void *kernel);
typedef int launch_fn(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      void *stream, void **arguments, void **extra);

/* Only the simulated driver has it (driver/simgpu.h); it returns a CUresult. */
typedef int use_fn(void *stream, unsigned long long pointer, size_t bytes, int write);

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    get_kernel_fn *get_kernel;
    get_function_fn *get_function;
    launch_fn *launch;
    use_fn *use;
    void *library;
    const char *names[NAMES_KEPT];
    void *kernels[NAMES_KEPT];
    const char *unsupported[NAMES_KEPT];
} work = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void open_driver(void) {
    static const char empty_code[64];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return;
    library_load_fn *load = (library_load_fn *)(uintptr_t)dlsym(driver, "cuLibraryLoadData");
    work.get_kernel = (get_kernel_fn *)(uintptr_t)dlsym(driver, "cuLibraryGetKernel");
    work.get_function = (get_function_fn *)(uintptr_t)dlsym(driver, "cuKernelGetFunction");
    work.launch = (launch_fn *)(uintptr_t)dlsym(driver, "cuLaunchKernel");
    work.use = (use_fn *)(uintptr_t)dlsym(driver, "simgpu_use");
    if (!load || load(&work.library, empty_code, NULL, NULL, 0, NULL, NULL, 0) != 0)
        work.launch = NULL;
}

/* Index of a name in a list that fills from the front; the list's end when it is full. Names are
 * compared by address. */
static size_t place_of(const char *const *names, const char *name) {
    size_t i = 0;
    while (i < NAMES_KEPT && names[i] && names[i] != name)
        i++;
    return i;
}

static void *kernel_of(const char *name) {
    void *kernel = NULL;
    pthread_mutex_lock(&work.lock);
    size_t i = place_of(work.names, name);
    if (i < NAMES_KEPT && work.names[i])
        kernel = work.kernels[i];
    else if (work.get_kernel(&kernel, work.library, name) != 0)
        kernel = NULL;
    else if (i < NAMES_KEPT) {
        work.names[i] = name;
        work.kernels[i] = kernel;
    }
    pthread_mutex_unlock(&work.lock);
    return kernel;
}

bool work_launch(void *stream, const char *name) {
    pthread_once(&work.once, open_driver);
    if (!work.launch || !work.get_kernel || !work.get_function)
        return false;
    void *kernel = kernel_of(name);
    void *function = NULL;
    if (!kernel || work.get_function(&function, kernel) != 0)
        return false;
    return work.launch(function, 1, 1, 1, 128, 1, 1, 0, stream, NULL, NULL) == 0;
}

bool work_use(void *stream, const void *pointer, size_t bytes, bool write) {
    pthread_once(&work.once, open_driver);
    if (!work.use || bytes == 0)
        return true;
    return work.use(stream, (uintptr_t)pointer, bytes, write) == 0;
}

/* The numbers of cudaDataType in library_types.h: real and complex, 16 to 64 bits, then the
 * eight-bit types. */
size_t work_element_bytes(int cuda_data_type) {
    static const unsigned char bytes[] = {
        [0] = 4,  [1] = 8,  [2] = 2,  [3] = 1,  [4] = 8,  [5] = 16, [6] = 4,
        [7] = 2,  [8] = 1,  [9] = 2,  [10] = 4, [11] = 8, [12] = 4, [13] = 8,
        [14] = 2, [15] = 4, [20] = 2, [24] = 8, [28] = 1, [29] = 1};
    if (cuda_data_type < 0 || (size_t)cuda_data_type >= sizeof bytes)
        return 0;
    return bytes[cuda_data_type];
}

bool work_use_matrix(void *stream, struct work_matrix matrix, bool write) {
    if (matrix.rows <= 0 || matrix.columns <= 0 || matrix.batch <= 0)
        return true;
    long long last = (matrix.batch - 1) * matrix.stride + (matrix.columns - 1) * matrix.leading;
    long long elements = last + matrix.rows;
    if (elements <= 0)
        return true;
    return work_use(stream, matrix.data, (size_t)elements * matrix.element_bytes, write);
}

void work_unsupported(const char *name) {
    pthread_mutex_lock(&work.lock);
    size_t i = place_of(work.unsupported, name);
    bool seen = i < NAMES_KEPT && work.unsupported[i];
    if (i < NAMES_KEPT)
        work.unsupported[i] = name;
    pthread_mutex_unlock(&work.lock);
    if (!seen)
        fprintf(stderr, "simgpu: %s is not simulated, it returns an error\n", name);
}
