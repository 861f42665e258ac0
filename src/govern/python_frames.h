/* python_frames.h: where in the program's Python a thread is. With the GIL, and for python.c only:
 * others ask that. */
#ifndef PYTHON_FRAMES_H
#define PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The innermost function that is not PyTorch's own, and what it is part of; empty: not known. */
struct python_place {
    char function[64];
    char file[64]; /* the last two parts of its path */
    char phase[24];
    uint32_t line; /* where the function begins */
};

struct python_look {
    uint64_t thread; /* pthread_self */
    bool or_main;    /* if that is nowhere in Python: the main thread */
    bool asks_error; /* whether it handles an exception, too */
    struct python_place *place;
    uint64_t error; /* the one, by address; 0: none, or this Python does not tell */
};

/* False: this Python does not tell. Leaves a Python error behind. */
bool python_frames_look(struct python_look *looks, size_t count);

#endif
