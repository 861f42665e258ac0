/* jobs_table.h: what the program did between two rests, as a table of text. */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include <stdio.h>

#include "read/stats_file.h"

/* The latest of them, `most` at the most. */
void jobs_table(FILE *out, const struct stats_file *record, size_t most);

#endif
