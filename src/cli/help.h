/* help.h: the tables as texts for people. */
#ifndef HELP_H
#define HELP_H

#include "cli/cli.h"

/* What `vramgc NAME --help` shows. */
void help_on(const struct command *command);

#endif
