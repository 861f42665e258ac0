/* c10_cuda.c: see caller.h. */
#include "caller.h"

#include <time.h>

/* c10::Device in one register: the type, CUDA, and above it the index 0. */
#define DEVICE_CUDA_0 ((uint64_t)1)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void *allocator_segment(capturing_function capturing, malloc_function allocate, size_t bytes) {
    int status = 0;
    void *volatile p = NULL; /* read again after the call: no tail call, the caller must be us */
    void *result = NULL;
    if (capturing(NULL, &status) != 0 || allocate(&result, bytes) != 0)
        return NULL;
    p = result;
    return p;
}

double allocator_play(report_function report, const struct block_event *events, size_t count) {
    double start = now();
    for (size_t i = 0; i < count; i++)
        report((void *)(uintptr_t)events[i].address, events[i].bytes, 0, 0, DEVICE_CUDA_0);
    return now() - start;
}

double allocator_pairs(capturing_function capturing, malloc_function allocate,
                       free_function give_back, size_t bytes, size_t count) {
    void *p = NULL;
    int status = 0;
    int failed = 0;
    double start = now();
    for (size_t i = 0; i < count; i++) {
        failed |= capturing(NULL, &status);
        failed |= allocate(&p, bytes);
        failed |= give_back(p);
    }
    double took = now() - start;
    return failed ? -1 : took;
}
