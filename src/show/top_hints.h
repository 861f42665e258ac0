/* top_hints.h: what `vramgc top` says of a program beside its figures, a line each: what it does,
 * idle memory that nobody gives back, signs that it hangs, and how it shares its card. */
#pragma once

#include <stddef.h>

#include "read/cards.h"

struct top_hint {
    char text[200];
};

/* Where it last took memory, and since when it rests; empty: not known. */
struct top_hint top_usual(const struct running_process *process);

enum { TOP_HINTS = 4 };

/* What is not always so; how many there are. */
size_t top_hints(const struct running_process *process, const struct cards *cards,
                 struct top_hint out[TOP_HINTS]);
