/* python_layout.h: where the host's Python keeps what a thread of it runs. These places differ from
 * release to release, and few of them are told: they are learned from code that we call, of which
 * we know what must be found, and never guessed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* All are offsets in bytes, from the beginning of the object. */
struct python_layout {
    unsigned thread_frames; /* in PyThreadState: the innermost frame, or what has it */
    bool indirect;          /* the latter (3.11 and 3.12) */
    unsigned innermost;     /* there */
    unsigned frame_code;    /* the code object; its lowest bits may be marks (3.14) */
    unsigned frame_outer;   /* the frame that called */
    unsigned thread_errors; /* in PyThreadState: the exceptions that are handled */
    unsigned error_value;   /* there: the innermost; after it come none or one more word, */
    unsigned error_outer;   /* and the next of them */
    unsigned code_name, code_file, code_line;
    unsigned code_long_name; /* with the class around it; before 3.11 the same as code_name */
    unsigned object_type;    /* in every object: its type */
    unsigned text_ascii;     /* in a str: its letters, where all are ASCII */
    unsigned text_wide;      /* and where not */
    unsigned text_state;     /* the bits that tell which */
    unsigned text_state_shift;
};

/* Of the state of a str. */
enum { LAYOUT_BYTES_A_LETTER = 7, LAYOUT_COMPACT = 8, LAYOUT_ASCII = 16 };

/* With the GIL, on a thread of ours, which has no Python of its own to run. Runs a few lines of
 * Python's own, which import nothing. False: something was not found, or not found again. */
bool python_layout_learn(struct python_layout *layout);
