/* python.h: the host's Python, if it has one, asked from our own threads only: never from a hook,
 * which may hold the lock of PyTorch's allocator, but for whether the calling thread has the GIL.
 * Nothing is linked; functions are looked up. */
#pragma once

#include <stdbool.h>

/* Makes sure, once, that Python waits for our thread before it ends and before it forks; nothing is
 * emptied before. To be called early, while Python is far from its end. Waits for the GIL the first
 * time that it finds a running Python. */
void python_prepare(void);

/* Calls that function of torch._C: _cuda_emptyCache() empties the cache of all devices;
 * _host_emptyCache(), from 2.5 on, that of page-locked host memory. False: no Python, no torch,
 * Python is ending or forking, must_not said so, or it raised. Waits for the GIL; must_not is asked
 * when it is there. */
bool python_call_torch(const char *function, bool (*must_not)(void *), void *context);

/* From now on functions are named (names.h), unless VRAMGC_FUNCTIONS says no; once there is a
 * Python. Waits for the GIL the first time. */
void python_name_functions(void);

/* Waits until our thread has been through that for the first time, so that the first block has a
 * name, too: 0.1 s at most, and not where the caller has the GIL, which our thread needs. Once in a
 * process, and never on the way of a block. Who has given the GIL away for a call has to wait for
 * it at the end of the call anyway. */
void python_await_names(void);

/* The process ends, perhaps past Python's own end and with the GIL held by the caller: nothing is
 * emptied any more, and our thread is let out. */
void python_process_ends(void);

/* The calling thread, one of ours, was ended by Python: no thread must wait for it. */
void python_thread_ended(void);

/* In a forked child, where our thread does not exist. */
void python_forget(void);

/* The calling thread has the GIL: then it must not wait for ours. */
bool python_is_held_here(void);

/* Python is ending, and frees what is left. */
bool python_has_ended(void);

/* The process has a running Python at all. */
bool python_is_there(void);
