/* How the stand-ins of the math libraries put their work on the simulated device: each call that
 * would launch kernels on a card launches one empty kernel in its stream, so that order, capture
 * into graphs and latency are those of real work. */
#ifndef SIM_MATH_WORK_H
#define SIM_MATH_WORK_H

#include <stdbool.h>
#include <stddef.h>

/* Launches an empty kernel called name in stream (NULL is the default stream). name must live as
 * long as the process. False when there is no driver or it refuses the launch. Any thread. */
bool work_launch(void *stream, const char *name);

/* Queues in stream what a kernel would do to bytes from pointer on: reading, or writing. On the
 * simulated driver a page that is not mapped when the stream gets there is an illegal access, as on
 * a card; no data moves. True on any other driver and for no bytes. Any thread. */
bool work_use(void *stream, const void *pointer, size_t bytes, bool write);

/* Bytes of an element of a cudaDataType; 0 for a type that is not known here. */
size_t work_element_bytes(int cuda_data_type);

/* A matrix in column-major order, or a batch of them, as cuBLAS takes it. */
struct work_matrix {
    const void *data;
    size_t element_bytes;
    long long rows, columns, leading, stride, batch;
};

/* work_use for a matrix: everything from its first to its last element. */
bool work_use_matrix(void *stream, struct work_matrix matrix, bool write);

/* Says once for each name on standard error that a function is not simulated. name must live as
 * long as the process. */
void work_unsupported(const char *name);

#endif
