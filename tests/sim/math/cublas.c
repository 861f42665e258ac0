/* Stand-in for cuBLAS. Nothing is computed: a call puts one empty kernel into its handle's stream.
 * The routines themselves (gemm and the rest) are generated stubs that end in sim_cublas_compute;
 * here is what keeps state or answers a question. Signatures and numbers are those of the public
 * cublas_api.h. */
#include "cublas.h"
#include "work.h"

#include <stdlib.h>

/* What the version query answers; set from the wheel's CUDA version by the generator. */
#ifndef SIM_CUDA_VERSION
#define SIM_CUDA_VERSION 13000
#endif

int cublasCreate_v2(struct cublas_handle **handle);
int cublasDestroy_v2(struct cublas_handle *handle);
int cublasSetStream_v2(struct cublas_handle *handle, void *stream);
int cublasGetStream_v2(struct cublas_handle *handle, void **stream);
int cublasSetMathMode(struct cublas_handle *handle, int mode);
int cublasGetMathMode(struct cublas_handle *handle, int *mode);
int cublasSetPointerMode_v2(struct cublas_handle *handle, int mode);
int cublasGetPointerMode_v2(struct cublas_handle *handle, int *mode);
int cublasSetAtomicsMode(struct cublas_handle *handle, int mode);
int cublasGetAtomicsMode(struct cublas_handle *handle, int *mode);
int cublasSetWorkspace_v2(struct cublas_handle *handle, void *workspace, size_t size);
int cublasSetSmCountTarget(struct cublas_handle *handle, int count);
int cublasGetVersion_v2(struct cublas_handle *handle, int *version);
int sim_cublas_unsupported(const char *name);

int cublasCreate_v2(struct cublas_handle **handle) {
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    *handle = calloc(1, sizeof **handle);
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

int cublasDestroy_v2(struct cublas_handle *handle) {
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* Setters and getters differ in the member only. */
#define CUBLAS_STATE(Setter, Getter, type, member)                                                 \
    int Setter(struct cublas_handle *handle, type value) {                                         \
        if (!handle)                                                                               \
            return CUBLAS_STATUS_NOT_INITIALIZED;                                                  \
        handle->member = value;                                                                    \
        return CUBLAS_STATUS_SUCCESS;                                                              \
    }                                                                                              \
    int Getter(struct cublas_handle *handle, type *value) {                                        \
        if (!handle)                                                                               \
            return CUBLAS_STATUS_NOT_INITIALIZED;                                                  \
        if (!value)                                                                                \
            return CUBLAS_STATUS_INVALID_VALUE;                                                    \
        *value = handle->member;                                                                   \
        return CUBLAS_STATUS_SUCCESS;                                                              \
    }
CUBLAS_STATE(cublasSetStream_v2, cublasGetStream_v2, void *, stream)
CUBLAS_STATE(cublasSetMathMode, cublasGetMathMode, int, math_mode)
CUBLAS_STATE(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)
CUBLAS_STATE(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode)

/* The caller's workspace is its own memory; without kernels nobody uses it. */
int cublasSetWorkspace_v2(struct cublas_handle *handle, void *workspace, size_t size) {
    (void)workspace;
    (void)size;
    return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

int cublasSetSmCountTarget(struct cublas_handle *handle, int count) {
    (void)count;
    return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

/* CUDA's 13.2 is cuBLAS' 130200: 10000 * major + 100 * minor. */
int cublasGetVersion_v2(struct cublas_handle *handle, int *version) {
    (void)handle;
    if (!version)
        return CUBLAS_STATUS_INVALID_VALUE;
    *version = SIM_CUDA_VERSION / 1000 * 10000 + SIM_CUDA_VERSION % 1000 / 10 * 100;
    return CUBLAS_STATUS_SUCCESS;
}

int sim_cublas_compute(struct cublas_handle *handle, const char *name) {
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    return work_launch(handle->stream, name) ? CUBLAS_STATUS_SUCCESS
                                             : CUBLAS_STATUS_EXECUTION_FAILED;
}

int sim_cublas_unsupported(const char *name) {
    work_unsupported(name);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
