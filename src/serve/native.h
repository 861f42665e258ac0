/* native.h: mode compact for the segments of PyTorch's native allocator: addresses alone, whose
 * pages come with its blocks. */
#pragma once

#include "serve/answer.h"
#include "track/alloc.h"

/* A segment of PyTorch's allocator out of address space, whose pages come with its blocks. */
enum serve_answer serve_malloc(uint64_t bytes, void **out);

/* Frees it, or a block of our own pool. False: the driver is to be asked. */
bool serve_free(const struct alloc_freed *taken);
