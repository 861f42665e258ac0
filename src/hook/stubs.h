/* stubs.h: the driver's functions that are not hooked, and what stubs.S, written in assembly,
 * shares with stubs.c. Any thread may call each. */
#pragma once

/* Of these the first have a name, in the order of stubs.def; the others lead to what a program
 * finds under names that CUDA's headers do not have, or in forms that only a look-up gives. Newer
 * drivers export some 700 functions in all forms (CUDA 13.5: 541 without). */
#define STUB_SPARE 1024
#if defined(__aarch64__)
#define STUB_BYTES 128
#else
#define STUB_BYTES 64
#endif

/* Where they lie in struct vramgc_file. */
#define STUB_PARKER  128
#define STUB_ENTERED 136

#ifndef __ASSEMBLER__
/* What stands in front of the driver's function; the function itself where it is none of the
 * driver's, or no stub is left (counted). */
void *hook_stub_of(void *function);

/* A program asked `handle` for a name that hooks.def has not: the stub to answer with, or NULL: the
 * real dlsym is to be asked for *name_slot. */
void *hook_stub_lookup(void *handle, const char *name, const char **name_slot);

/* Something was unloaded: what has a name is looked for again at its next call. */
void hook_stubs_forget(void);
#endif
