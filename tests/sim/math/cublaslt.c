/* Stand-in for cuBLASLt: descriptors are opaque memory, one algorithm without workspace is always
 * offered, a product is one empty kernel in its stream. Signatures, numbers and the result's layout
 * are those of the public cublasLt.h. */
#include "work.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};

#ifndef SIM_CUDA_VERSION
#define SIM_CUDA_VERSION 13000
#endif

/* cublasLtMatmulHeuristicResult_t. A zeroed one means: success, no workspace. */
struct heuristic_result {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};
_Static_assert(sizeof(struct heuristic_result) == 96, "the caller's array has this stride");

/* Larger than any of the library's descriptors, which callers see as pointers only. */
enum { DESCRIPTOR_BYTES = 512 };

size_t cublasLtGetVersion(void);
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
int cublasLtMatmulDescCreate(void **descriptor, int compute_type, int scale_type);
int cublasLtMatmulDescDestroy(void *descriptor);
int cublasLtMatmulDescSetAttribute(void *descriptor, int attribute, const void *value, size_t size);
int cublasLtMatmulPreferenceCreate(void **preference);
int cublasLtMatmulPreferenceDestroy(void *preference);
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                         size_t size);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t stride);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t size);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                   void *d, void *preference, int wanted,
                                   struct heuristic_result *results, int *found);
int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const void *algorithm, void *workspace,
                   size_t workspace_bytes, void *stream);
int sim_cublaslt_unsupported(const char *name);

static int create(void **object) {
    if (!object)
        return CUBLAS_STATUS_INVALID_VALUE;
    *object = calloc(1, DESCRIPTOR_BYTES);
    return *object ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static int destroy(void *object) {
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

static int set_attribute(const void *object, const void *value) {
    return object && value ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

size_t cublasLtGetVersion(void) {
    return SIM_CUDA_VERSION / 1000 * 10000 + SIM_CUDA_VERSION % 1000 / 10 * 100;
}

int cublasLtCreate(void **handle) {
    return create(handle);
}

int cublasLtDestroy(void *handle) {
    return destroy(handle);
}

int cublasLtMatmulDescCreate(void **descriptor, int compute_type, int scale_type) {
    (void)compute_type;
    (void)scale_type;
    return create(descriptor);
}

int cublasLtMatmulDescDestroy(void *descriptor) {
    return destroy(descriptor);
}

int cublasLtMatmulDescSetAttribute(void *descriptor, int attribute, const void *value,
                                   size_t size) {
    (void)attribute;
    (void)size;
    return set_attribute(descriptor, value);
}

int cublasLtMatmulPreferenceCreate(void **preference) {
    return create(preference);
}

int cublasLtMatmulPreferenceDestroy(void *preference) {
    return destroy(preference);
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                         size_t size) {
    (void)attribute;
    (void)size;
    return set_attribute(preference, value);
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t stride) {
    (void)type;
    (void)rows;
    (void)columns;
    (void)stride;
    return create(layout);
}

int cublasLtMatrixLayoutDestroy(void *layout) {
    return destroy(layout);
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t size) {
    (void)attribute;
    (void)size;
    return set_attribute(layout, value);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                   void *d, void *preference, int wanted,
                                   struct heuristic_result *results, int *found) {
    if (!handle || !operation || !a || !b || !c || !d || !preference || !found || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(results, 0, sizeof *results);
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const void *algorithm, void *workspace,
                   size_t workspace_bytes, void *stream) {
    (void)alpha, (void)a, (void)b, (void)beta, (void)c, (void)algorithm;
    (void)workspace, (void)workspace_bytes;
    if (!handle || !operation || !a_layout || !b_layout || !c_layout || !d || !d_layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    return work_launch(stream, "cublasLtMatmul") ? CUBLAS_STATUS_SUCCESS
                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}

int sim_cublaslt_unsupported(const char *name) {
    work_unsupported(name);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
