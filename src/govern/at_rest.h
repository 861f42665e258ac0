/* at_rest.h: host memory that nobody uses goes back while the program rests: what its allocator
 * keeps, and PyTorch's cache of page-locked memory. By our own thread only. */
#pragma once

#include "base/base.h"

/* To read the process's processor time takes 0.3 us. */
#define AT_REST_STEP_NS (50 * MILLISECOND_NS)

/* A few times a second. True: a release has not finished, and the next step is due soon. */
bool at_rest_look(uint64_t now_ns);
