/* diff_which.h: which of two runs held less, or whether one did less work, in a sentence. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "read/stats_file.h"

void diff_which(FILE *out, const struct stats_file *a, const char *name_a,
                const struct stats_file *b, const char *name_b);

/* As often as the verdict says. */
uint64_t diff_ooms(const struct stats_file *side);
