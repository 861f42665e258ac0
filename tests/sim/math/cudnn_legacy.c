/* The part of cuDNN's older interface that PyTorch uses beside the graph one: descriptors, which
 * are opaque memory here, batch normalisation and pooling, which take no memory of their own and
 * are one empty kernel each. What else is computed through it (convolutions with the graph
 * interface switched off, RNNs, CTC loss) is not simulated and says so. */
#include "cudnn.h"
#include "work.h"

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

/* Setters of the descriptors that are only handed on; further arguments are not read. */
#define SETTER(Name)                                                                               \
    int Name(void *descriptor);                                                                    \
    int Name(void *descriptor) {                                                                   \
        return descriptor ? STATUS_SUCCESS : STATUS_BAD_PARAM;                                     \
    }

SETTER(cudnnSetTensorNdDescriptor)
SETTER(cudnnSetFilterNdDescriptor)
SETTER(cudnnSetActivationDescriptor)
SETTER(cudnnSetPooling2dDescriptor)

/* Computations: one kernel in the handle's stream; further arguments are not read. */
#define COMPUTATION(Name)                                                                          \
    int Name(struct cudnn_handle *handle);                                                         \
    int Name(struct cudnn_handle *handle) {                                                        \
        if (!handle)                                                                               \
            return STATUS_BAD_PARAM;                                                               \
        return work_launch(handle->stream, #Name) ? STATUS_SUCCESS : STATUS_EXECUTION_FAILED;      \
    }

COMPUTATION(cudnnBatchNormalizationForwardInference)
COMPUTATION(cudnnBatchNormalizationForwardTrainingEx)
COMPUTATION(cudnnBatchNormalizationBackwardEx)
COMPUTATION(cudnnPoolingForward)

int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations,
                                                             void *x, void *z, void *y, void *scale,
                                                             void *activation, size_t *size);
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations,
                                                         void *activation, void *x, size_t *size);
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations,
                                                      void *x, void *y, void *dy, void *dz,
                                                      void *dx, void *scale, void *activation,
                                                      size_t *size);

static int no_memory(size_t *size) {
    if (!size)
        return STATUS_BAD_PARAM;
    *size = 0;
    return STATUS_SUCCESS;
}

int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations,
                                                             void *x, void *z, void *y, void *scale,
                                                             void *activation, size_t *size) {
    (void)handle, (void)mode, (void)operations, (void)x, (void)z, (void)y;
    (void)scale, (void)activation;
    return no_memory(size);
}

int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations,
                                                         void *activation, void *x, size_t *size) {
    (void)handle, (void)mode, (void)operations, (void)activation, (void)x;
    return no_memory(size);
}

int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations,
                                                      void *x, void *y, void *dy, void *dz,
                                                      void *dx, void *scale, void *activation,
                                                      size_t *size) {
    (void)handle, (void)mode, (void)operations, (void)x, (void)y, (void)dy, (void)dz, (void)dx;
    (void)scale, (void)activation;
    return no_memory(size);
}
