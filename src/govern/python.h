/* python.h: the host's Python, if it has one, asked from our own thread only: never from a hook,
 * which may hold the lock of PyTorch's allocator. Nothing is linked; functions are looked up. */
#ifndef PYTHON_H
#define PYTHON_H

#include <stdbool.h>
#include <stddef.h>

/* Makes sure, once, that Python waits for our thread before it ends and before it forks; nothing is
 * emptied before. To be called early, while Python is far from its end. Waits for the GIL the first
 * time that it finds a running Python. */
void python_prepare(void);

/* Calls torch._C._cuda_emptyCache(), which empties the cache of all devices. False: no Python, no
 * torch, Python is ending or forking, must_not said so, or it raised. Waits for the GIL; must_not
 * is asked when it is there. If `function` is not NULL the name of the Python function that the
 * main thread runs is stored there ("" if unknown). */
bool python_empty_cache(char *function, size_t capacity, bool (*must_not)(void));

/* Whether that can be done, as far as is known: from any thread. */
bool python_may_empty(void);

/* The process ends, perhaps past Python's own end and with the GIL held by the caller: nothing is
 * emptied any more, and our thread is let out. */
void python_process_ends(void);

/* Our thread was ended by Python: nobody shall wait for it. */
void python_thread_ended(void);

/* In a forked child, where our thread does not exist. */
void python_forget(void);

/* Whether the process has a running Python at all. */
bool python_is_there(void);

#endif
