/* help.h: the tables as texts for people. */
#ifndef HELP_H
#define HELP_H

#include <stdio.h>

#include "cli/cli.h"

/* Sentences broken at spaces to lines of 80 columns behind `indent` columns. */
void help_wrapped(FILE *out, int indent, const char *text);

/* The table of commands, which names help_main itself; before anything else here. */
void help_open(const struct command *commands, size_t count);

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/* Writes what `vramgc NAME --help` shows, as --help always succeeds: STATUS_FINE, unless standard
 * output cannot be written. */
int command_help(const char *name);

int help_main(int argc, char **argv);

#endif
