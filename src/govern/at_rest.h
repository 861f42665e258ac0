/* at_rest.h: host memory that nobody uses goes back while the program rests: what its allocator
 * keeps, and PyTorch's cache of page-locked memory. By our own thread only. */
#pragma once

#include <stdint.h>

/* A few times a second. Returns after how long at most the next is due; UINT64_MAX: nothing is. */
uint64_t at_rest_look(uint64_t now_ns);
