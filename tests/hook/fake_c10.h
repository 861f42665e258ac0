/* fake_c10.h: what c10_blocks.c asks of the two libraries of fake_c10.c. */
#ifndef FAKE_C10_H
#define FAKE_C10_H

#include <stdbool.h>
#include <stdint.h>

/* The latest call of an original, and how many there were. */
struct fake_c10_call {
    const char *what;
    void *pointer;
    int64_t bytes;
    uint64_t allocated, reserved, device;
    unsigned calls;
};

struct fake_c10_call fake_c10_latest(void);

/* Calls made from within libc10_cuda.so; old: the mangling of PyTorch before 2.0. */
int fake_c10_segment(void **p, uint64_t bytes);
int fake_c10_release(void *p);
int fake_c10_event(void *event);
void fake_c10_report(bool old, void *p, int64_t bytes, uint64_t device);
void fake_c10_oom(bool old, int64_t bytes, uint64_t device);

#endif
