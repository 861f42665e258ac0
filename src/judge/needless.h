/* needless.h: what the program does about its memory although vramgc makes that needless. */
#ifndef NEEDLESS_H
#define NEEDLESS_H

#include <stddef.h>

#include "base/text.h"
#include "read/stats_file.h"

/* A sentence about the first of them that does, and what turns it off; nothing where none does. */
void needless_say(struct text *text, struct stats_file *const *records, size_t count);

#endif
