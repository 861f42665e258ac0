/* lookup.h: what dlsym.S, written in assembly, needs from lookup.c. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include <stdatomic.h>

extern _Atomic(void *) hook_real_dlsym;

/* The wrapper to answer with, or NULL: the real dlsym is to be jumped to. Makes sure that
 * hook_real_dlsym is set. caller: the code that called dlsym. */
void *hook_dlsym(void *handle, const char *name, const void *caller);

#endif
