/* diff.h: two records side by side. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "read/stats_file.h"

/* titles: "A,B" for the heads of the columns, NULL: where the files' names differ. all: every
 * figure. */
void diff_write(FILE *out, const struct stats_file *a, const struct stats_file *b,
                const char *titles, bool all);
