/* help.h: the tables as texts for people. */
#ifndef HELP_H
#define HELP_H

#include <stdio.h>

#include "cli/cli.h"

/* "--threshold PERCENT, -t", and what a setting's value looks like. */
void help_flag_heading(const struct flag *flag, char *out, size_t capacity);

/* Sentences broken at spaces to lines of 80 columns behind `indent` columns. */
void help_wrapped(FILE *out, int indent, const char *text);

/* The manual page, as troff with the man macros. */
void man_write(FILE *out);

#endif
