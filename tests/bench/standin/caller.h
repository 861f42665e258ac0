/* caller.h: calls whose caller counts. libvramgc.so tells PyTorch's allocator from others by the
 * object that a call comes from; so the loops that are timed exist twice, in a libc10_cuda.so that
 * stands in for PyTorch's and in the benchmark itself. */
#ifndef CALLER_H
#define CALLER_H

#include "trace.h"

typedef void (*report_function)(void *p, int64_t bytes, size_t allocated, size_t reserved,
                                uint64_t device);
typedef int (*malloc_function)(void **p, size_t bytes);
typedef int (*free_function)(void *p);
typedef int (*capturing_function)(void *stream, int *status);

/* As PyTorch's allocator takes a segment: it asks whether the stream is captured, then allocates.
 * NULL when there is no memory. */
void *allocator_segment(capturing_function capturing, malloc_function allocate, size_t bytes);

/* Tells of each event. Nanoseconds in all. */
double allocator_play(report_function report, const struct block_event *events, size_t count);

/* Takes a segment as above and frees it, `count` times. Nanoseconds in all; below 0: a call
 * failed. */
double allocator_pairs(capturing_function capturing, malloc_function allocate,
                       free_function give_back, size_t bytes, size_t count);

#endif
