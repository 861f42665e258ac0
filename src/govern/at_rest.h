/* at_rest.h: host memory that nobody uses goes back while the program rests: what its allocator
 * keeps, and PyTorch's cache of page-locked memory. By our own thread only. */
#pragma once

#include <stdint.h>

/* A few times a second. */
void at_rest_look(uint64_t now_ns);
