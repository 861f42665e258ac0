/* top_hints.h: what `vramgc top` says of a program beside its figures, a line each: where it last
 * took memory, idle memory that nobody gives back, signs that it hangs, and how it shares its card.
 */
#pragma once

#include <stddef.h>

#include "read/cards.h"

struct top_hint {
    char text[200];
};

enum { TOP_HINTS = 5 };

/* How many there are. */
size_t top_hints(const struct running_process *process, const struct cards *cards,
                 struct top_hint out[TOP_HINTS]);
