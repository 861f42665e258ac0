/* driver_interposer.c: another interposer, of the driver, behind vramgc. Where the driver was
 * linked, that one is called once for each call, and the call is counted once; where the driver was
 * opened by dlopen, nobody called it without vramgc, and it could not find the driver. This is the
 * interposer (-DINTERPOSER) and the program: -DLINKED with the driver, or without. */
#include "cuda/cuda_api.h"

#include <dlfcn.h>

#ifdef INTERPOSER

static unsigned calls;

unsigned interposer_calls(void);
unsigned interposer_calls(void) {
    return calls;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    CUresult (*next)(CUdeviceptr *, size_t) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    calls++;
    return next(p, n); /* which it must have */
}

#else

#include "check.h"

#ifdef LINKED
#define FUNCTION(symbol) symbol
enum { PASSES = 1 };
#else
static void *driver;
#define FUNCTION(symbol) ((__typeof__(&symbol))dlsym(driver, #symbol))
enum { PASSES = 0 };
#endif

int main(void) {
    CUcontext context = NULL;
    CUdeviceptr p = 0;
    unsigned (*calls)(void) = NULL;
    void *by_name = NULL;
    *(void **)&calls = dlsym(RTLD_DEFAULT, "interposer_calls");
#ifndef LINKED
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#endif
    if (!CHECK(calls != NULL))
        return 1;
    OK(FUNCTION(cuInit)(0));
    OK(FUNCTION(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(FUNCTION(cuCtxSetCurrent)(context));
    watch(0);
    OK(FUNCTION(cuMemAlloc_v2)(&p, 3 * MIB));
    CHECK(calls() == PASSES);
    EXPECT(.held = 3 * MIB, .other = 3 * MIB);
    OK(FUNCTION(cuMemFree_v2)(p));
    UNCHANGED();
    /* What the driver hands out by name is still known as its function. */
    OK(FUNCTION(cuGetProcAddress_v2)("cuMemAlloc", &by_name, 12000, 0, NULL));
    OK(((CUresult(*)(CUdeviceptr *, size_t))by_name)(&p, 3 * MIB));
    EXPECT(.held = 3 * MIB, .other = 3 * MIB);
    OK(FUNCTION(cuMemFree_v2)(p));
    UNCHANGED();
    return check_result("driver_interposer");
}

#endif
