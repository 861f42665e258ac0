/* jobs_table.h: what the program did between two rests, for JSON, as a table of text, and as CSV.
 */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include <stdbool.h>
#include <stdio.h>

#include "read/emit.h"
#include "read/stats_file.h"

void jobs_fields(struct emit *emit, const struct stats_file *record);

/* The latest of them, `most` at the most. */
void jobs_table(FILE *out, const struct stats_file *record, size_t most);

#endif
