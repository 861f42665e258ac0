/* diff.h: two records side by side. */
#ifndef DIFF_H
#define DIFF_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/stats_file.h"

/* titles: "A,B" for the heads of the columns, NULL: the files' names. all: also what is equal. */
void diff_write(FILE *out, const struct stats_file *a, const struct stats_file *b,
                const char *titles, bool all);

#endif
