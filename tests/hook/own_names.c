/* own_names.c: a driver that looks up its own functions with dlsym, as some do, must get its own
 * functions and not the wrappers: a wrapper that calls the driver would come back to itself.
 * This is a small driver (-DDRIVER: libcuda.so.1) and the program that asks it. */
#include "cuda/cuda_api.h"

#include <dlfcn.h>

#ifdef DRIVER

static CUresult init(unsigned f);

CUresult cuInit(unsigned f) {
    static unsigned depth;
    CUresult (*inner)(unsigned) = NULL;
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (++depth > 1)
        return CUDA_ERROR_UNKNOWN; /* it came back through a wrapper */
    *(void **)&inner = dlsym(self, "cuMemFreeHost");
    CUresult result = inner == (void *)cuMemFreeHost ? init(f) : CUDA_ERROR_INVALID_HANDLE;
    dlclose(self);
    depth--;
    return result;
}

static CUresult init(unsigned f) {
    return f ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p) {
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#else

#include "check.h"

int main(void) {
    CUresult (*start)(unsigned) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!CHECK(driver != NULL))
        return 1;
    *(void **)&start = dlsym(driver, "cuInit");
    void *wrapper = dlsym(driver, "cuMemFreeHost");
    CHECK(wrapper && wrapper == dlsym(RTLD_DEFAULT, "cuMemFreeHost"));
    CHECK(start && start(0) == CUDA_SUCCESS);
    CHECK(start && start(0) == CUDA_SUCCESS);
    return check_result("own_names");
}

#endif
