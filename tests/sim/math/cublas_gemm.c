/* The matrix products that PyTorch calls most, with their operands: the pages of A, B and C must be
 * mapped when the stream gets to the product. Signatures are those of the public cublas_api.h;
 * matrices are column-major. */
#include "cublas.h"
#include "work.h"

#include <stddef.h>

enum { OPERATION_NONE = 0 };
enum { REAL_32F = 0, REAL_64F = 1 };

/* One product or a batch of them: C (m x n) = A (m x k) * B (k x n), each possibly given
 * transposed. */
struct product {
    int transposed_a, transposed_b;
    int m, n, k;
    const void *a, *b;
    void *c;
    int type_a, type_b, type_c;
    int leading_a, leading_b, leading_c;
    long long stride_a, stride_b, stride_c;
    int batch;
};

static int multiply(struct cublas_handle *handle, const char *name, const struct product *p) {
    bool plain_a = p->transposed_a == OPERATION_NONE;
    bool plain_b = p->transposed_b == OPERATION_NONE;
    struct work_matrix a = {p->a,
                            work_element_bytes(p->type_a),
                            plain_a ? p->m : p->k,
                            plain_a ? p->k : p->m,
                            p->leading_a,
                            p->stride_a,
                            p->batch};
    struct work_matrix b = {p->b,
                            work_element_bytes(p->type_b),
                            plain_b ? p->k : p->n,
                            plain_b ? p->n : p->k,
                            p->leading_b,
                            p->stride_b,
                            p->batch};
    struct work_matrix c = {
        p->c, work_element_bytes(p->type_c), p->m, p->n, p->leading_c, p->stride_c, p->batch};
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (p->m < 0 || p->n < 0 || p->k < 0 || p->batch < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!work_use_matrix(handle->stream, a, false) || !work_use_matrix(handle->stream, b, false) ||
        !work_use_matrix(handle->stream, c, true))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return sim_cublas_compute(handle, name);
}

int cublasGemmEx(struct cublas_handle *handle, int transposed_a, int transposed_b, int m, int n,
                 int k, const void *alpha, const void *a, int type_a, int leading_a, const void *b,
                 int type_b, int leading_b, const void *beta, void *c, int type_c, int leading_c,
                 int compute_type, int algorithm);
int cublasGemmStridedBatchedEx(struct cublas_handle *handle, int transposed_a, int transposed_b,
                               int m, int n, int k, const void *alpha, const void *a, int type_a,
                               int leading_a, long long stride_a, const void *b, int type_b,
                               int leading_b, long long stride_b, const void *beta, void *c,
                               int type_c, int leading_c, long long stride_c, int batch,
                               int compute_type, int algorithm);

int cublasGemmEx(struct cublas_handle *handle, int transposed_a, int transposed_b, int m, int n,
                 int k, const void *alpha, const void *a, int type_a, int leading_a, const void *b,
                 int type_b, int leading_b, const void *beta, void *c, int type_c, int leading_c,
                 int compute_type, int algorithm) {
    (void)alpha, (void)beta, (void)compute_type, (void)algorithm;
    struct product product = {
        transposed_a, transposed_b, m,         n,         k,         a, b, c, type_a,
        type_b,       type_c,       leading_a, leading_b, leading_c, 0, 0, 0, 1};
    return multiply(handle, "cublasGemmEx", &product);
}

int cublasGemmStridedBatchedEx(struct cublas_handle *handle, int transposed_a, int transposed_b,
                               int m, int n, int k, const void *alpha, const void *a, int type_a,
                               int leading_a, long long stride_a, const void *b, int type_b,
                               int leading_b, long long stride_b, const void *beta, void *c,
                               int type_c, int leading_c, long long stride_c, int batch,
                               int compute_type, int algorithm) {
    (void)alpha, (void)beta, (void)compute_type, (void)algorithm;
    struct product product = {
        transposed_a, transposed_b, m,      n,         k,         a,         b,        c,
        type_a,       type_b,       type_c, leading_a, leading_b, leading_c, stride_a, stride_b,
        stride_c,     batch};
    return multiply(handle, "cublasGemmStridedBatchedEx", &product);
}

/* The typed forms have one element type for all three matrices. */
#define TYPED_GEMM(Letter, element, type)                                                          \
    int cublas##Letter##gemm_v2(struct cublas_handle *handle, int transposed_a, int transposed_b,  \
                                int m, int n, int k, const element *alpha, const element *a,       \
                                int leading_a, const element *b, int leading_b,                    \
                                const element *beta, element *c, int leading_c);                   \
    int cublas##Letter##gemm_v2(struct cublas_handle *handle, int transposed_a, int transposed_b,  \
                                int m, int n, int k, const element *alpha, const element *a,       \
                                int leading_a, const element *b, int leading_b,                    \
                                const element *beta, element *c, int leading_c) {                  \
        (void)alpha, (void)beta;                                                                   \
        struct product product = {                                                                 \
            transposed_a, transposed_b, m,         n,         k,         a, b, c, type,            \
            type,         type,         leading_a, leading_b, leading_c, 0, 0, 0, 1};              \
        return multiply(handle, "cublas" #Letter "gemm_v2", &product);                             \
    }                                                                                              \
    int cublas##Letter##gemmStridedBatched(                                                        \
        struct cublas_handle *handle, int transposed_a, int transposed_b, int m, int n, int k,     \
        const element *alpha, const element *a, int leading_a, long long stride_a,                 \
        const element *b, int leading_b, long long stride_b, const element *beta, element *c,      \
        int leading_c, long long stride_c, int batch);                                             \
    int cublas##Letter##gemmStridedBatched(                                                        \
        struct cublas_handle *handle, int transposed_a, int transposed_b, int m, int n, int k,     \
        const element *alpha, const element *a, int leading_a, long long stride_a,                 \
        const element *b, int leading_b, long long stride_b, const element *beta, element *c,      \
        int leading_c, long long stride_c, int batch) {                                            \
        (void)alpha, (void)beta;                                                                   \
        struct product product = {                                                                 \
            transposed_a, transposed_b, m,    n,         k,         a,         b,        c,        \
            type,         type,         type, leading_a, leading_b, leading_c, stride_a, stride_b, \
            stride_c,     batch};                                                                  \
        return multiply(handle, "cublas" #Letter "gemmStridedBatched", &product);                  \
    }
TYPED_GEMM(S, float, REAL_32F)
TYPED_GEMM(D, double, REAL_64F)
