/* What the files of the cuBLAS and cuBLASLt stand-ins share. Numbers are those of the public
 * cublas_api.h. */
#ifndef SIM_MATH_CUBLAS_H
#define SIM_MATH_CUBLAS_H

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};

struct cublas_handle {
    int math_mode;
    int pointer_mode;
    int atomics_mode;
    void *stream;
};

/* Puts one empty kernel called name into the handle's stream; name must live as long as the
 * process. A status. */
int sim_cublas_compute(struct cublas_handle *handle, const char *name);

#endif
