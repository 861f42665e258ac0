/* vmm_calls.h: what stands for PyTorch's allocator in vmm_calls.c: the driver's calls, made from a
 * library of its name, and its block events. */
#ifndef VMM_CALLS_H
#define VMM_CALLS_H

#include "cuda/cuda_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct allocator {
    CUresult (*reserve)(CUdeviceptr *p, size_t n);
    CUresult (*address_free)(CUdeviceptr p, size_t n);
    CUresult (*create)(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *d);
    CUresult (*release)(CUmemGenericAllocationHandle h);
    CUresult (*map)(CUdeviceptr p, size_t n, CUmemGenericAllocationHandle h);
    CUresult (*unmap)(CUdeviceptr p, size_t n);
    void (*block)(CUdeviceptr p, int64_t bytes); /* < 0: given back */
};

const struct allocator *fake_allocator(void);

/* Of what PyTorch makes on device 0. */
static inline CUmemAllocationProp properties_of(CUmemAllocationHandleType type) {
    CUmemAllocationProp properties;
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = type;
    return properties;
}

/* Whether a forked child hears of the driver that there is no CUDA. */
static inline bool child_is_without(CUmemGenericAllocationHandle handle) {
    int status = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(fake_allocator()->release(handle) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    waitpid(pid, &status, 0);
    return status == 0;
}

#endif
