/* help.h: the tables as texts for people. */
#ifndef HELP_H
#define HELP_H

#include <stdio.h>

#include "cli/cli.h"

/* Sentences broken at spaces to lines of 80 columns behind `indent` columns. */
void help_wrapped(FILE *out, int indent, const char *text);

/* What `vramgc NAME --help` shows. */
void help_on(const struct command *command);

#endif
