/* summary_who.h: a table of the page of text. */
#ifndef CLI_SUMMARY_WHO_H
#define CLI_SUMMARY_WHO_H

#include <stdio.h>

#include "cli/stats_file.h"

/* Whose live memory was; nothing where nobody is known. all: SIZE_MAX. */
void summary_who(FILE *out, const struct stats_file *record, size_t most_rows);

#endif
