/* pattern.h: work on the device, and whether memory holds what was written. On a card kernels do
 * both. The simulated device's kernels do nothing: there its own questions (simgpu_touch,
 * simgpu_expect) stand for them, and nothing is claimed of arithmetic. */
#pragma once

#include "prove/driver_calls.h"

/* Word i of a pattern is i * PATTERN_FACTOR + seed. */
#define PATTERN_FACTOR 2654435761u

/* Compiles the kernels, and makes a counter. */
CUresult pattern_open(void);

/* Behind what the stream does already: every word of the pages is written, or compared. bytes is a
 * multiple of 4. */
CUresult pattern_write(CUstream stream, CUdeviceptr at, size_t bytes, uint32_t seed);
CUresult pattern_check(CUstream stream, CUdeviceptr at, size_t bytes, uint32_t seed);

/* Waits for the device; how many words were wrong so far, or uses that the simulated device
 * reported. */
CUresult pattern_wrong(uint64_t *wrong);

/* Counts from none again. */
CUresult pattern_forget(void);

/* Work that keeps the stream busy for about so long; on the simulated device until it is ended. */
CUresult work_begin(CUstream stream, unsigned milliseconds);
CUresult work_end(CUstream stream);

/* Work that is over by itself after about so long, also on the simulated device: there work_end
 * waits for the thread that ends it. One at a time. */
CUresult work_for(CUstream stream, unsigned milliseconds);
