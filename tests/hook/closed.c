/* closed.c: a program looks at libraries that export CUDA's names, and closes them again: one of
 * another name, and a stub of the driver. Afterwards the true driver works, is counted, and nothing
 * that was closed is kept or called. This is the stub (-DSTUB) and the program: closed OTHER STUB.
 */
#include "cuda/cuda_api.h"

#include <dlfcn.h>

#ifdef STUB

CUresult cuInit(unsigned f) {
    (void)f;
    return CUDA_ERROR_STUB_LIBRARY;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = *total = 0;
    return CUDA_ERROR_STUB_LIBRARY;
}

CUresult cuGetProcAddress_v2(const char *name, void **f, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    (void)name, (void)version, (void)flags, (void)status;
    *f = NULL;
    return CUDA_ERROR_STUB_LIBRARY;
}

#else

#include "check.h"

/* As in a program that asks whether there is a driver. */
static void look_at(const char *path) {
    CUresult (*init)(unsigned) = NULL;
    CUresult (*info)(size_t *, size_t *) = NULL;
    size_t free, total;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!CHECK(library != NULL))
        return;
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&info = dlsym(library, "cuMemGetInfo_v2");
    CHECK(init && init(0) == CUDA_ERROR_STUB_LIBRARY);
    CHECK(info && info(&free, &total) == CUDA_ERROR_STUB_LIBRARY);
    CHECK(dlclose(library) == 0);
    CHECK(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL);
}

/* Our own threads will call the true driver: once it has begun to work it stays. */
static void driver_stays(void) {
    CUresult (*init)(unsigned) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *(void **)&init = dlsym(driver, "cuInit");
    OK(init(0));
    dlclose(driver);
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
}

int main(int count, char **arguments) {
    cudaError_t (*allocate)(void **, size_t) = NULL, (*release)(void *) = NULL;
    CUresult (*init)(unsigned) = NULL;
    size_t free, total;
    CUresult (*info)(size_t *, size_t *) = NULL;
    void *p = NULL;
    for (int round = 0; round < 2; round++)
        for (int i = 1; i < count; i++)
            look_at(arguments[i]);
    driver_stays();
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!CHECK(runtime && driver))
        return 1;
    *(void **)&allocate = dlsym(runtime, "cudaMalloc");
    *(void **)&release = dlsym(runtime, "cudaFree");
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&info = dlsym(driver, "cuMemGetInfo_v2");
    OK(release(NULL));
    watch(0);
    OK(allocate(&p, 3 * MIB));
    EXPECT(.held = 3 * MIB, .other = 3 * MIB);
    OK(release(p));
    UNCHANGED();
    OK(init(0));
    OK(info(&free, &total));
    CHECK(total > 0);
    return check_result("closed");
}

#endif
