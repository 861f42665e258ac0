/* needless.h: what is needless: that the program empties a cache in which vramgc leaves nothing,
 * and page-locked memory beyond what was asked of PyTorch. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "read/stats_file.h"

/* A sentence, and what turns it off. False: it does nothing of the kind. */
bool needless_say(struct text *text, const struct stats_file *record);

/* A sentence, and what helps. False: it is not. */
bool pinned_say(struct text *text, const struct stats_file *record);
