/* html_tables.h: the figures of one process as tables of a page, which need no script. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"

/* number: of the process in the page's JSON report. */
void html_tables_write(FILE *out, const struct stats_file *record, size_t number);
