/* vmm_calls.h: what stands for PyTorch's allocator in vmm_calls.c: the driver's calls, made from a
 * library of its name, and its block events. */
#ifndef VMM_CALLS_H
#define VMM_CALLS_H

#include "cuda/cuda_api.h"

#include <stdint.h>

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

#endif
