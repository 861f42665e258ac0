/* completion.h: what a shell offers behind `vramgc`, written from the same tables as the help. */
#pragma once

void completion_bash(void);
void completion_zsh(void);
void completion_fish(void);
