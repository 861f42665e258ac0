/* What the files of the cuDNN stand-in share. Numbers are those of the public cudnn_graph.h (9) and
 * cudnn_ops_infer.h (8). */
#ifndef SIM_MATH_CUDNN_H
#define SIM_MATH_CUDNN_H

/* The version that is reported; set by the generator to what the wheel was built against. */
#ifndef SIM_CUDNN_MAJOR
#define SIM_CUDNN_MAJOR 9
#define SIM_CUDNN_MINOR 26
#define SIM_CUDNN_PATCH 0
#endif

/* cudnnStatus_t: cuDNN 9 gave the errors new numbers. */
enum {
    STATUS_SUCCESS = 0,
#if SIM_CUDNN_MAJOR >= 9
    STATUS_BAD_PARAM = 2000,
    STATUS_NOT_SUPPORTED = 3000,
    STATUS_ALLOC_FAILED = 4003,
    STATUS_EXECUTION_FAILED = 5000
#else
    STATUS_BAD_PARAM = 3,
    STATUS_NOT_SUPPORTED = 9,
    STATUS_ALLOC_FAILED = 2,
    STATUS_EXECUTION_FAILED = 8
#endif
};

/* cudnnHandle_t points to one of these. */
struct cudnn_handle {
    void *stream;
};

#endif
