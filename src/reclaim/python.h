/* python.h: the host's Python, if it has one, asked from our own thread only: never from a hook,
 * which may hold the lock of PyTorch's allocator. Nothing is linked; functions are looked up. */
#ifndef PYTHON_H
#define PYTHON_H

#include <stdbool.h>
#include <stddef.h>

/* Calls torch._C._cuda_emptyCache(), which empties the cache of all devices. False: no Python, no
 * torch, Python is ending, or it raised. Waits for the GIL. If `function` is not NULL the name of
 * the Python function that the main thread runs is stored there ("" if unknown). */
bool python_empty_cache(char *function, size_t capacity);

/* Whether the process has a running Python at all. */
bool python_is_there(void);

#endif
