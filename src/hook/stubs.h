/* stubs.h: the driver's functions that are not hooked. For stubs.S, too. Any thread may call. */
#pragma once

/* Beside those that have a name, in stubs.def: for what only a look-up gives. Newer drivers export
 * some 700 functions in all forms (CUDA 13.5: 541 without). */
#define STUB_SPARE 1024
#define STUB_BYTES 64

/* Where they lie in struct vramgc_file. */
#define STUB_PARKER  128
#define STUB_ENTERED 136

#ifndef __ASSEMBLER__
/* Looked up in the place of a symbol that only we have: no library can have such a name, so
 * that the C library answers, and leaves its error text, as without us. */
#define NOWHERE(symbol) #symbol " (no loaded library has it)"

/* The stub in front of the driver's function; the function itself where it is none of the
 * driver's, or no stub is left (counted). */
void *hook_stub_of(void *function);

/* A program asked `handle` for a name that hooks.def has not: the stub to answer with, or NULL: the
 * real dlsym is to be asked for *name_slot. */
void *hook_stub_lookup(void *handle, const char *name, const char **name_slot);

/* Something was unloaded: what has a name is looked for again at its next call. */
void hook_stubs_forget(void);
#endif
