/* Stand-in for cuDNN: handles and versions. The graph interface is in cudnn_graph.c, the older
 * descriptors in cudnn_legacy.c; what has no body by hand is generated, says once that it is not
 * simulated and returns an error. */
#include "cudnn.h"
#include "work.h"

#include <stddef.h>
#include <stdlib.h>

#ifndef SIM_CUDA_VERSION
#define SIM_CUDA_VERSION 13000
#endif

int cudnnCreate(struct cudnn_handle **handle);
int cudnnDestroy(struct cudnn_handle *handle);
int cudnnSetStream(struct cudnn_handle *handle, void *stream);
int cudnnGetStream(struct cudnn_handle *handle, void **stream);
size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
int cudnnGetProperty(int property, int *value);
const char *cudnnGetErrorString(int status);
void cudnnGetLastErrorString(char *message, size_t size);
int sim_cudnn_unsupported(const char *name);

int cudnnCreate(struct cudnn_handle **handle) {
    if (!handle)
        return STATUS_BAD_PARAM;
    *handle = calloc(1, sizeof **handle);
    return *handle ? STATUS_SUCCESS : STATUS_ALLOC_FAILED;
}

int cudnnDestroy(struct cudnn_handle *handle) {
    free(handle);
    return STATUS_SUCCESS;
}

int cudnnSetStream(struct cudnn_handle *handle, void *stream) {
    if (!handle)
        return STATUS_BAD_PARAM;
    handle->stream = stream;
    return STATUS_SUCCESS;
}

int cudnnGetStream(struct cudnn_handle *handle, void **stream) {
    if (!handle || !stream)
        return STATUS_BAD_PARAM;
    *stream = handle->stream;
    return STATUS_SUCCESS;
}

size_t cudnnGetVersion(void) {
    size_t per_major = SIM_CUDNN_MAJOR >= 9 ? 10000 : 1000;
    return SIM_CUDNN_MAJOR * per_major + SIM_CUDNN_MINOR * 100 + SIM_CUDNN_PATCH;
}

size_t cudnnGetCudartVersion(void) {
    return SIM_CUDA_VERSION;
}

/* libraryPropertyType: 0 major, 1 minor, 2 patch level. */
int cudnnGetProperty(int property, int *value) {
    static const int version[] = {SIM_CUDNN_MAJOR, SIM_CUDNN_MINOR, SIM_CUDNN_PATCH};
    if (!value || property < 0 || property > 2)
        return STATUS_BAD_PARAM;
    *value = version[property];
    return STATUS_SUCCESS;
}

const char *cudnnGetErrorString(int status) {
    switch (status) {
    case STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED (not simulated)";
    case STATUS_ALLOC_FAILED:
        return "CUDNN_STATUS_ALLOC_FAILED";
    case STATUS_EXECUTION_FAILED:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
        return "an error that the simulated cuDNN does not know";
    }
}

void cudnnGetLastErrorString(char *message, size_t size) {
    if (message && size)
        *message = '\0';
}

int sim_cudnn_unsupported(const char *name) {
    work_unsupported(name);
    return STATUS_NOT_SUPPORTED;
}
