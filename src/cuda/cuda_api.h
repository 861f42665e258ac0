/* cuda_api.h: the CUDA Toolkit's public headers, with the names as the libraries export them: the
 * headers' macros that turn cuMemAlloc into cuMemAlloc_v2 are switched off. It must not declare
 * anything of our own but what the headers leave out. */
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>
#undef cudaGetDeviceProperties /* CUDA 12 renames it */

/* Of newer releases, by NVIDIA's documentation. What only goes through needs no more. */
#if CUDA_VERSION < 13020
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
#endif
#if CUDA_VERSION < 13030
typedef void *CUgraphRecaptureCallback; /* a function */
typedef cuuint32_t CUlogicalEndpointId;
#endif

/* PyTorch's MempoolId_t: of a graph, or of a torch.cuda.MemPool; the other is 0. */
typedef struct {
    uint64_t graph, user;
} pool_id_t;
