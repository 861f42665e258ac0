/* diff_which.h: which of two runs held less, or whether one did less work, in a sentence. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "read/stats_file.h"

enum { DIFF_COLUMN = 14 }; /* a label and three figures in 80 columns */

struct sides {
    FILE *out;
    const struct stats_file *a, *b;
    bool in_a, in_b; /* what the rows are of; of what one has not nothing is known */
    bool all;
};

void diff_which(const struct sides *sides);

/* As often as the verdict says. */
uint64_t diff_ooms(const struct stats_file *side);
