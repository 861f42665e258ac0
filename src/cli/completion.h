/* completion.h: what a shell offers behind `vramgc`, written from the same tables as the help. */
#ifndef COMPLETION_H
#define COMPLETION_H

void completion_bash(void);
void completion_zsh(void);
void completion_fish(void);

#endif
