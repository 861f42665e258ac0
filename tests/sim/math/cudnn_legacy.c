/* The part of cuDNN's older interface that PyTorch touches beside the graph one: descriptors are
 * opaque memory. What is computed through them (convolutions with the graph interface switched off,
 * RNNs, CTC loss) is not simulated and says so. */
#include "cudnn.h"

#include <stdlib.h>

/* Larger than any of the library's descriptors, which callers see as pointers only. */
enum { DESCRIPTOR_BYTES = 1024 };

#define DESCRIPTOR(Kind)                                                                           \
    int cudnnCreate##Kind##Descriptor(void **descriptor);                                          \
    int cudnnDestroy##Kind##Descriptor(void *descriptor);                                          \
    int cudnnCreate##Kind##Descriptor(void **descriptor) {                                         \
        if (!descriptor)                                                                           \
            return STATUS_BAD_PARAM;                                                               \
        *descriptor = calloc(1, DESCRIPTOR_BYTES);                                                 \
        return *descriptor ? STATUS_SUCCESS : STATUS_ALLOC_FAILED;                                 \
    }                                                                                              \
    int cudnnDestroy##Kind##Descriptor(void *descriptor) {                                         \
        free(descriptor);                                                                          \
        return STATUS_SUCCESS;                                                                     \
    }

DESCRIPTOR(Activation)
DESCRIPTOR(CTCLoss)
DESCRIPTOR(Convolution)
DESCRIPTOR(Dropout)
DESCRIPTOR(Filter)
DESCRIPTOR(Pooling)
DESCRIPTOR(RNN)
DESCRIPTOR(RNNData)
DESCRIPTOR(SpatialTransformer)
DESCRIPTOR(Tensor)
