/* The runtime's names and texts of errors. Names come from the public header's enumeration
 * (generated into error_names.inc), texts from the driver, which has the same numbers for the
 * common codes. */
#include "runtime.h"

static const struct {
    cudaError_t error;
    const char *name;
} error_names[] = {
#define ERROR_NAME(name) {name, #name},
#include "error_names.inc"
#undef ERROR_NAME
};

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof error_names / sizeof *error_names; i++) {
        if (error_names[i].error == error)
            return error_names[i].name;
    }
    return "unrecognized error code";
}

/* Codes that only the runtime has, with the words that its documentation uses for them. */
static const char *runtime_only_text(cudaError_t error) {
    switch (error) {
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInvalidSymbol:
        return "invalid device symbol";
    case cudaErrorInvalidMemcpyDirection:
        return "invalid copy direction for memcpy";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorMissingConfiguration:
        return "__global__ function call is not configured";
    case cudaErrorInvalidDeviceFunction:
        return "invalid device function";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    default:
        return NULL;
    }
}

const char *cudaGetErrorString(cudaError_t error) {
    const char *text = runtime_only_text(error);
    if (text)
        return text;
    if (rt_load() == cudaSuccess && cu.cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS &&
        text)
        return text;
    return error == cudaSuccess ? "no error" : "unrecognized error code";
}
