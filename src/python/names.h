/* names.h: which Python function takes device memory: the innermost one of the calling thread that
 * is not PyTorch's own, as a site of the statistics file. No call here waits for Python. */
#pragma once

#include "base/base.h"
#include "vramgc_format.h"

/* Blocks of this size and more are each looked at; of smaller ones, one for each so many bytes,
 * which stands for them. PyTorch's allocator keeps those of up to 1 MiB apart, in segments of 2 MiB
 * (kSmallSize in CUDACachingAllocator.cpp). */
#define NAMES_STEP_BYTES MEBIBYTE

/* From when frames_learn has succeeded until Python ends. */
void names_begin(void);
void names_end(void);
extern atomic_bool names_on;

/* Who took memory: a site of the file and, in the bits above it, the call of it (struct
 * vramgc_call), each as 1 + its index, or 0: not known. */
enum { NAMES_SITE_BITS = 11, NAMES_CALL_BITS = 13 };

static inline uint32_t names_site(uint32_t who) {
    return who & ((1 << NAMES_SITE_BITS) - 1);
}

static inline uint32_t names_call(uint32_t who) {
    return who >> NAMES_SITE_BITS;
}

/* The calling thread, and its site alone. */
uint32_t names_caller(void);

static inline uint32_t names_here(void) {
    return names_site(names_caller());
}

/* Both are part of one piece of work, as names_caller tells of them: `now` is within the function
 * of `then`, or that which called it, or is of the same phase. True where calls are not known. */
bool names_are_of_one(uint32_t then, uint32_t now);

/* Autograd records this thread's work, and has just done so: its results keep what led to them. */
bool names_recorded(void);

/* The function of a site that one of these told, and of the one that any thread told latest. */
void names_describe(uint32_t site, struct vramgc_action *action);
uint32_t names_latest(void);

/* Where in Python the calling thread is, as frames_place; 0: not known. */
uint64_t names_place(void);

/* Both are of one phase, but the second is no call of the same function: another try at the same.
 */
bool names_are_tries(uint32_t then, uint32_t now);

/* The exception that the program's Python handles on the calling thread, by address; 0: none. */
uint64_t names_error(void);

/* The same as names_caller, of a block. */
uint32_t names_of_large_block(void);

/* Whose a block of so many bytes is, as names_caller tells; 0: also where it is too small to be
 * looked at. On the way of every block that is handed out. */
extern THREAD_LOCAL int64_t names_left_bytes; /* until a small block is looked at */

static inline uint32_t names_of_block(uint64_t bytes) {
    if (!atomic_load_explicit(&names_on, memory_order_relaxed))
        return 0;
    if (bytes < NAMES_STEP_BYTES) {
        names_left_bytes -= (int64_t)bytes;
        if (LIKELY(names_left_bytes > 0))
            return 0;
        names_left_bytes += (int64_t)NAMES_STEP_BYTES;
    }
    return names_of_large_block();
}
