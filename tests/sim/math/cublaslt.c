/* Stand-in for cuBLASLt: descriptors are opaque memory, one algorithm without workspace is always
 * offered, a product is one empty kernel in its stream. Signatures, numbers and the result's layout
 * are those of the public cublasLt.h. */
#include "cublas.h"
#include "work.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* cublasLtMatrixLayoutAttribute_t: the ones that change where a matrix lies. */
enum {
    LAYOUT_TYPE = 0,
    LAYOUT_ROWS = 2,
    LAYOUT_COLUMNS = 3,
    LAYOUT_LEADING = 4,
    LAYOUT_BATCH = 5,
    LAYOUT_STRIDE = 6
};

/* cublasLtMatrixLayout_t: a matrix without its address. */
struct layout {
    int type;
    int batch;
    uint64_t rows, columns;
    int64_t leading, stride;
};

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
int cublasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading);
int cublasLtMatrixLayoutDestroy(struct layout *layout);
int cublasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value,
                                     size_t size);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                   void *d, void *preference, int wanted,
                                   struct heuristic_result *results, int *found);
int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a,
                   struct layout *a_layout, const void *b, struct layout *b_layout,
                   const void *beta, const void *c, struct layout *c_layout, void *d,
                   struct layout *d_layout, const void *algorithm, void *workspace,
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

int cublasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
    int status = create((void **)layout);
    if (status == CUBLAS_STATUS_SUCCESS)
        **layout = (struct layout){type, 1, rows, columns, leading, 0};
    return status;
}

int cublasLtMatrixLayoutDestroy(struct layout *layout) {
    return destroy(layout);
}

static void *member_of(struct layout *layout, int attribute, size_t *size) {
    *size = attribute == LAYOUT_TYPE || attribute == LAYOUT_BATCH ? sizeof(int) : sizeof(int64_t);
    switch (attribute) {
    case LAYOUT_TYPE:
        return &layout->type;
    case LAYOUT_BATCH:
        return &layout->batch;
    case LAYOUT_ROWS:
        return &layout->rows;
    case LAYOUT_COLUMNS:
        return &layout->columns;
    case LAYOUT_LEADING:
        return &layout->leading;
    case LAYOUT_STRIDE:
        return &layout->stride;
    default:
        return NULL;
    }
}

/* Attributes that do not say where a matrix lies are taken and forgotten. */
int cublasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value,
                                     size_t size) {
    size_t expected = 0;
    if (!layout || !value)
        return CUBLAS_STATUS_INVALID_VALUE;
    void *member = member_of(layout, attribute, &expected);
    if (member && size != expected)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (member)
        memcpy(member, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static bool use(void *stream, const void *data, const struct layout *layout, bool write) {
    struct work_matrix matrix = {data,
                                 work_element_bytes(layout->type),
                                 (long long)layout->rows,
                                 (long long)layout->columns,
                                 layout->leading,
                                 layout->stride,
                                 layout->batch};
    return work_use_matrix(stream, matrix, write);
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

int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a,
                   struct layout *a_layout, const void *b, struct layout *b_layout,
                   const void *beta, const void *c, struct layout *c_layout, void *d,
                   struct layout *d_layout, const void *algorithm, void *workspace,
                   size_t workspace_bytes, void *stream) {
    (void)alpha, (void)beta, (void)c, (void)algorithm;
    if (!handle || !operation || !a_layout || !b_layout || !c_layout || !d || !d_layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!use(stream, a, a_layout, false) || !use(stream, b, b_layout, false) ||
        !use(stream, d, d_layout, true) || !work_use(stream, workspace, workspace_bytes, true))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return work_launch(stream, "cublasLtMatmul") ? CUBLAS_STATUS_SUCCESS
                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}

int sim_cublaslt_unsupported(const char *name) {
    work_unsupported(name);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
