/* needless.h: what the program does about its memory although vramgc makes that needless. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "read/stats_file.h"

/* A sentence, and what turns it off. False: it does nothing of the kind. */
bool needless_say(struct text *text, const struct stats_file *record);
