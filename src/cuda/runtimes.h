/* runtimes.h: which CUDA runtime a caller was linked with, where more than one is loaded. Our
 * symbols carry no version, so the calls of all of them come to us, and each must go on to its own.
 */
#pragma once

#include "cuda/real.h"

/* The real function of the runtime that the object with the code address `caller` is linked with;
 * `usual` is what real_get(id) says, which is right for all others. A few compares; the first call
 * out of each object reads the loader's list, and waits for the loader only if that object needs
 * another runtime than the usual one. */
void *runtimes_choose(enum real_id id, const void *caller, void *usual);

/* Forgets what was learnt of objects that were closed. */
void runtimes_forget_closed(void);
