/* diff.h: two records side by side. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "read/stats_file.h"

/* all: every figure. */
void diff_write(FILE *out, const struct stats_file *a, const struct stats_file *b, bool all);
