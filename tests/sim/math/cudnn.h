/* What the files of the cuDNN stand-in share. Numbers are those of the public cudnn_graph.h. */
#ifndef SIM_MATH_CUDNN_H
#define SIM_MATH_CUDNN_H

enum {
    STATUS_SUCCESS = 0,
    STATUS_ALLOC_FAILED = 2,
    STATUS_BAD_PARAM = 3,
    STATUS_EXECUTION_FAILED = 8,
    STATUS_NOT_SUPPORTED = 9
};

/* cudnnHandle_t points to one of these. */
struct cudnn_handle {
    void *stream;
};

#endif
