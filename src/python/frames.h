/* frames.h: what Python the calling thread runs, read from its own frames, which stand still while
 * it is in a call: with the GIL or without, from any thread, at the price of a few loads. Nothing
 * of Python is called but what tells the thread's state, and nothing is kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Learns how. With the GIL, on a thread of ours, which has no Python of its own to run, once. Runs
 * a few lines of Python's own, which import nothing. False: something was not found, or not found
 * again, and the others must not be called. */
bool frames_learn(void);

/* The innermost frame, and the one that called it; 0: none. */
uint64_t frames_innermost(void);

/* The calling thread is one of Python's, whether or not a function runs in it. */
bool frames_thread(void);
uint64_t frames_outer(uint64_t frame);

/* The code that the frame runs, which lives as long as the frame does; 0: none of Python's. */
uint64_t frames_code(uint64_t frame);

/* The frame and those that called it, `most` of all: the same for the same codes. Where a code has
 * gone another one may lie at its address: their names tell them apart. */
struct frames_trail {
    uint64_t codes, names;
};
struct frames_trail frames_trail(uint64_t frame, int most);

/* Texts of the code; from 3.11 on the long name is told with the class around it. In UTF-8.
 * The line is where it begins. */
void frames_name(uint64_t code, char *out, size_t capacity);
void frames_long_name(uint64_t code, char *out, size_t capacity);
void frames_file(uint64_t code, char *out, size_t capacity);
uint32_t frames_line(uint64_t code);

/* The innermost frame and where in it the thread is: the same until it goes on in Python; 0: none.
 */
uint64_t frames_place(void);

/* The exception that the thread handles, by address; 0: none. */
uint64_t frames_error(void);
