/* lookup.h: what dlsym.S, written in assembly, needs from lookup.c. */
#pragma once

#include <stdatomic.h>

extern _Atomic(void *) hook_real_dlsym;

/* The wrapper to answer with, or NULL: the real dlsym is to be jumped to. Makes sure that
 * hook_real_dlsym is set. caller: the code that called dlsym. *name_slot: what the real dlsym will
 * be asked for; the name, or what this puts there. */
void *hook_dlsym(void *handle, const char *name, const void *caller, const char **name_slot);
