/* recording.h: whether this process records. Recording begins at the first use of CUDA
 * (process/start.h) and ends in a forked child. It must not decide anything. */
#pragma once

#include "base/base.h"

enum recording_state { RECORDING_ASLEEP, RECORDING_ON, RECORDING_INERT };
extern atomic_int recording_state;

static inline bool recording_is_on(void) {
    return atomic_load_explicit(&recording_state, memory_order_relaxed) == RECORDING_ON;
}
