/* fake_c10.c: libc10.so and libc10_cuda.so in little: the functions that vramgc puts itself in
 * front of, in both manglings, which note what they were called with, and (-DALLOCATOR) a library
 * of the name of PyTorch's that calls them. Real releases have one mangling only. */
#include "fake_c10.h"

#include <stddef.h>

typedef int64_t l;
typedef size_t m;

#define REPORT_M _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define REPORT_L _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE
#define OOM_M    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
#define OOM_L    _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE

/* Exported: what the loader binds by name. */
#pragma GCC visibility push(default)

void REPORT_M(void *p, l bytes, m allocated, m reserved, uint64_t device);
void REPORT_L(void *p, l bytes, l allocated, l reserved, uint64_t device);
void OOM_M(l bytes, m allocated, m reserved, uint64_t device);
void OOM_L(l bytes, l allocated, l reserved, uint64_t device);

#ifdef ALLOCATOR

int cudaMalloc(void **p, size_t n);
int cudaFree(void *p);
int cudaStreamIsCapturing(void *stream, int *status);
int cudaEventRecord(void *event, void *stream);

int fake_c10_segment(void **p, uint64_t bytes) {
    int status = 0;
    cudaStreamIsCapturing(NULL, &status);
    int result = cudaMalloc(p, bytes);
    return result + 0 * status; /* not a tail call: vramgc looks at who calls */
}

int fake_c10_release(void *p) {
    volatile int result = cudaFree(p);
    return result;
}

int fake_c10_event(void *event) {
    volatile int result = cudaEventRecord(event, NULL);
    return result;
}

void fake_c10_report(bool old, void *p, int64_t bytes, uint64_t device) {
    if (old)
        REPORT_L(p, bytes, 11, 22, device);
    else
        REPORT_M(p, bytes, 11, 22, device);
}

void fake_c10_oom(bool old, int64_t bytes, uint64_t device) {
    if (old)
        OOM_L(bytes, 33, 44, device);
    else
        OOM_M(bytes, 33, 44, device);
}

#else

static struct fake_c10_call latest;

struct fake_c10_call fake_c10_latest(void) {
    return latest;
}

static void note(const char *what, void *p, l bytes, uint64_t allocated, uint64_t reserved,
                 uint64_t device) {
    latest = (struct fake_c10_call){what, p, bytes, allocated, reserved, device, latest.calls + 1};
}

void REPORT_M(void *p, l bytes, m allocated, m reserved, uint64_t device) {
    note("lmm", p, bytes, allocated, reserved, device);
}

void REPORT_L(void *p, l bytes, l allocated, l reserved, uint64_t device) {
    note("lll", p, bytes, (uint64_t)allocated, (uint64_t)reserved, device);
}

void OOM_M(l bytes, m allocated, m reserved, uint64_t device) {
    note("oom lmm", NULL, bytes, allocated, reserved, device);
}

void OOM_L(l bytes, l allocated, l reserved, uint64_t device) {
    note("oom lll", NULL, bytes, (uint64_t)allocated, (uint64_t)reserved, device);
}

#endif
