/* help.h: the tables as texts for people. */
#pragma once

#include "cli/cli.h"

/* What is typed first: of `vramgc` alone. */
void help_first(FILE *out);

/* What `vramgc NAME --help` shows. */
void help_on(const struct command *command);
