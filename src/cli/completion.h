/* completion.h: what a shell offers behind `vramgc`, written from the same tables as the help. */
#ifndef COMPLETION_H
#define COMPLETION_H

#include "cli/cli.h"

void completion_bash(FILE *out, const struct command *commands, size_t count);
void completion_zsh(FILE *out, const struct command *commands, size_t count);
void completion_fish(FILE *out, const struct command *commands, size_t count);

#endif
