/* hook_dlsym.c: another interposer behind vramgc, of the kind of quota libraries: it answers dlsym
 * and cuGetProcAddress with functions of its own. It must be asked as often as without vramgc, and
 * each call is counted once. This is the interposer (-DINTERPOSER) and the program. For
 * tests/govern/mode.bats there are three more interposers: one that answers for cuMemCreate as well
 * (-DCREATES), one that only cuGetProcAddress brings in (-DBY_QUESTION), and one of the runtime
 * (-DOF_RUNTIME). */
#include "cuda/cuda_api.h"

#include <dlfcn.h>
#include <string.h>

#ifdef INTERPOSER

enum { QUOTA = 64 << 20 };

static unsigned calls;

unsigned interposer_calls(void);
unsigned interposer_calls(void) {
    return calls;
}

static void *real_dlsym(void *handle, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    void *volatile found = real(handle, name);
    return found;
}

#ifdef OF_RUNTIME

cudaError_t cudaMalloc(void **p, size_t n) {
    cudaError_t (*real)(void **, size_t) = NULL;
    calls++;
    *(void **)&real = real_dlsym(RTLD_NEXT, "cudaMalloc");
    return n > QUOTA ? cudaErrorMemoryAllocation : real(p, n);
}

#else

static void *of_driver(const char *name) {
    return real_dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), name);
}

#ifdef CREATES
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *d,
                     unsigned long long f) {
    CUresult (*real)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                     unsigned long long) = NULL;
    calls++;
    *(void **)&real = of_driver("cuMemCreate");
    return real(h, n, d, f);
}
#endif

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    CUresult (*real)(CUdeviceptr *, size_t) = NULL;
    calls++;
    *(void **)&real = of_driver("cuMemAlloc_v2");
    return n > QUOTA ? CUDA_ERROR_OUT_OF_MEMORY : real(p, n);
}

CUresult cuGetProcAddress_v2(const char *name, void **f, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    CUresult (*real)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    *(void **)&real = of_driver("cuGetProcAddress_v2");
    CUresult result = real(name, f, version, flags, status);
    if (result == CUDA_SUCCESS && *f && strcmp(name, "cuMemAlloc") == 0)
        *f = (void *)cuMemAlloc_v2;
#ifdef CREATES
    if (result == CUDA_SUCCESS && *f && strcmp(name, "cuMemCreate") == 0)
        *f = (void *)cuMemCreate;
#endif
    return result;
}

void *dlsym(void *handle, const char *name) {
#ifndef BY_QUESTION
    if (handle != RTLD_NEXT && strcmp(name, "cuMemAlloc_v2") == 0)
        return (void *)cuMemAlloc_v2;
#endif
#ifdef CREATES
    if (handle != RTLD_NEXT && strcmp(name, "cuMemCreate") == 0)
        return (void *)cuMemCreate;
#endif
    if (handle != RTLD_NEXT && strcmp(name, "cuGetProcAddress_v2") == 0)
        return (void *)cuGetProcAddress_v2;
    return real_dlsym(handle, name);
}

#endif

#else

#include "check.h"

/* Which has called the other interposer how often since the latest time. */
static unsigned passed(void) {
    static unsigned (*calls)(void);
    static unsigned before;
    if (!calls)
        *(void **)&calls = dlsym(RTLD_DEFAULT, "interposer_calls");
    unsigned now = calls ? calls() : 0, since = now - before;
    before = now;
    return since;
}

static void by_runtime(void) {
    cudaError_t (*allocate)(void **, size_t) = NULL, (*release)(void *) = NULL;
    void *p = NULL, *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    *(void **)&allocate = dlsym(runtime, "cudaMalloc");
    *(void **)&release = dlsym(runtime, "cudaFree");
    if (!CHECK(allocate && release))
        return;
    OK(release(NULL));
    watch(0);
    OK(allocate(&p, 3 * MIB));
    CHECK(passed() == 1);
    EXPECT(.held = 3 * MIB, .other = 3 * MIB);
    OK(release(p));
    UNCHANGED();
    CHECK(allocate(&p, 65 * MIB) == cudaErrorMemoryAllocation);
    CHECK(passed() >= 1);
}

static void by_driver(unsigned calls) {
    CUresult (*allocate)(CUdeviceptr *, size_t) = NULL, (*release)(CUdeviceptr) = NULL;
    CUdeviceptr p = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&release = dlsym(driver, "cuMemFree_v2");
    if (!CHECK(allocate && release))
        return;
    OK(allocate(&p, 3 * MIB));
    CHECK(passed() == calls);
    EXPECT(.held = 3 * MIB, .other = 3 * MIB);
    OK(release(p));
    UNCHANGED();
}

/* With an argument: for a name that a program asks dlsym for it does not answer. */
int main(int argc, char **argv) {
    (void)argv;
    by_runtime();
    by_driver(argc == 1);
    return check_result("hook_dlsym");
}

#endif
