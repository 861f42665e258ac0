/* man.h: the manual page, as troff with the man macros. */
#ifndef MAN_H
#define MAN_H

#include "cli/cli.h"

void man_write(FILE *out, const struct command *commands, size_t count);

#endif
