/* terminal.h: what a report may do where a person looks at it: use the width that there is, and
 * colour. In a pipe or a file it is 80 columns of plain text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct terminal {
    int columns;
    bool colours; /* NO_COLOR is not set, and the terminal is no dumb one */
};

struct terminal terminal_of(FILE *out);
