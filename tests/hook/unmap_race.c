/* unmap_race.c: another thread maps the same addresses anew before the one that unmapped them
 * has heard that they are free: its mapping stays in the books. With INTERPOSER: what stands behind
 * vramgc in front of the driver, and lets the other thread in at that moment. */
#include "cuda/cuda_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

typedef CUresult unmap_t(CUdeviceptr, size_t);

#ifdef INTERPOSER

void (*unmap_raceped)(void);

__attribute__((visibility("default"))) CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
    unmap_t *next = (unmap_t *)dlsym(RTLD_NEXT, "cuMemUnmap");
    CUresult result = next(p, n);
    if (result == CUDA_SUCCESS && unmap_raceped)
        unmap_raceped();
    return result;
}

#else

#include "check.h"

enum { PAGE_BYTES = 2 << 20 };

static CUdeviceptr at;
static CUmemGenericAllocationHandle second;

static void *map_second(void *context) {
    OK(cuCtxSetCurrent(context));
    OK(cuMemMap(at, PAGE_BYTES, 0, second, 0));
    return NULL;
}

static void unmapped(void) {
    CUcontext context = NULL;
    pthread_t thread;
    OK(cuCtxGetCurrent(&context));
    pthread_create(&thread, NULL, map_second, context);
    pthread_join(thread, NULL);
}

static CUmemGenericAllocationHandle create(void) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle = 0;
    OK(cuMemCreate(&handle, PAGE_BYTES, &properties, 0));
    return handle;
}

int main(void) {
    CUcontext primary = NULL;
    void (**hear)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, "unmap_raceped");
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    if (!CHECK(hear != NULL))
        return 1;
    watch(0);
    OK(cuMemAddressReserve(&at, PAGE_BYTES, 0, 0, 0));
    CUmemGenericAllocationHandle first = create();
    second = create();
    OK(cuMemMap(at, PAGE_BYTES, 0, first, 0));
    *hear = unmapped;
    OK(cuMemUnmap(at, PAGE_BYTES));
    *hear = NULL;
    EXPECT(.address = PAGE_BYTES, .held = 2 * PAGE_BYTES, .other = 2 * PAGE_BYTES);
    OK(cuMemRelease(first));
    OK(cuMemRelease(second)); /* it is mapped: the memory stays until the unmap */
    EXPECT(.address = PAGE_BYTES, .held = PAGE_BYTES, .other = PAGE_BYTES);
    OK(cuMemUnmap(at, PAGE_BYTES));
    EXPECT(.address = PAGE_BYTES);
    OK(cuMemAddressFree(at, PAGE_BYTES));
    UNCHANGED();
    return check_result("unmap_race");
}

#endif
