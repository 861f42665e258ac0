/* pinned.h: whether page-locked memory may be larger than what was asked of PyTorch. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "read/stats_file.h"

/* A sentence, and what helps. False: it is not. */
bool pinned_say(struct text *text, const struct stats_file *record);
