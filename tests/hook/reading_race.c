/* reading_race.c: another thread asks what is free while the one that has just got memory has not
 * told of it: the memory is not taken for that of others; nor is what a pool has grown by. With
 * INTERPOSER: what stands behind vramgc in front of the driver, and lets the other thread in at
 * that moment. */
#include "cuda/cuda_api.h"

#include <dlfcn.h>
#include <pthread.h>

typedef CUresult alloc_t(CUdeviceptr *, size_t);

#ifdef INTERPOSER

void (*reading_raced)(void);

__attribute__((visibility("default"))) CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    alloc_t *next = (alloc_t *)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    CUresult result = next(p, n);
    if (result == CUDA_SUCCESS && reading_raced)
        reading_raced();
    return result;
}

#else

#include "check.h"

static void ask(void) {
    size_t free, total;
    OK(cuMemGetInfo_v2(&free, &total));
}

static void *ask_in(void *context) {
    OK(cuCtxSetCurrent(context));
    ask();
    return NULL;
}

static void allocated(void) {
    CUcontext context = NULL;
    pthread_t thread;
    OK(cuCtxGetCurrent(&context));
    pthread_create(&thread, NULL, ask_in, context);
    pthread_join(thread, NULL);
}

static uint64_t others(void) {
    return check_file()->devices[0].stats.others_bytes.current;
}

int main(void) {
    CUcontext primary = NULL;
    CUdeviceptr first, second, pooled;
    void (**hear)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, "reading_raced");
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(cuMemAlloc_v2(&first, MIB));
    ask();
    if (!CHECK(hear != NULL) || !CHECK(check_file() != NULL))
        return 1;
    uint64_t before = others();
    *hear = allocated;
    OK(cuMemAlloc_v2(&second, 64 * MIB));
    *hear = NULL;
    CHECK(others() == before);
    ask();
    CHECK(others() == before);
    OK(cuMemAllocAsync(&pooled, MIB, NULL)); /* the pool grows by more, and nobody has looked */
    ask();
    CHECK(others() == before);
    OK(cuMemFreeAsync(pooled, NULL));
    OK(cuMemFree_v2(first));
    OK(cuMemFree_v2(second));
    return check_result("reading_race");
}

#endif
