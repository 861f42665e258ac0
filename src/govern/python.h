/* python.h: the host's Python, if it has one, asked from our own threads only: never from a hook,
 * which may hold the lock of PyTorch's allocator. Nothing is linked; functions are looked up. */
#ifndef PYTHON_H
#define PYTHON_H

#include <stdbool.h>
#include <stddef.h>

#include "govern/python_frames.h"

/* Makes sure, once, that Python waits for our thread before it ends and before it forks; nothing is
 * emptied before. To be called early, while Python is far from its end. Waits for the GIL the first
 * time that it finds a running Python. */
void python_prepare(void);

/* Calls torch._C._cuda_emptyCache(), which empties the cache of all devices. False: no Python, no
 * torch, Python is ending or forking, must_not said so, or it raised. Waits for the GIL; must_not
 * is asked when it is there. *place: where that thread was (pthread_self), or the main one. */
bool python_empty_cache(uint64_t thread, struct python_place *place, bool (*must_not)(void *),
                        void *context);

/* The same for PyTorch's cache of page-locked host memory: torch._C._host_emptyCache(), which is
 * there from 2.5 on. */
bool python_empty_host_cache(bool (*must_not)(void *), void *context);

/* Looks where threads are. False: it could not. Waits for the GIL. */
bool python_look(struct python_look *looks, size_t count);

/* Whether there is a Python that tells where threads are. */
bool python_can_look(void);

/* Of the calling thread, whichever it is; without a Python it has none. */
bool python_thread_has_gil(void);

/* Whether that can be done, as far as is known: from any thread. */
bool python_may_empty(void);

/* The process ends, perhaps past Python's own end and with the GIL held by the caller: nothing is
 * emptied any more, and our thread is let out. */
void python_process_ends(void);

/* The calling thread, one of ours, was ended by Python: nobody shall wait for it. */
void python_thread_ended(void);

/* In a forked child, where our thread does not exist. */
void python_forget(void);

/* Whether Python is ending, and frees what is left. */
bool python_has_ended(void);

/* Whether the process has a running Python at all. */
bool python_is_there(void);

#endif
