/* html.h: the report as one page for a browser. It needs no network and no other file: what it
 * looks like and what moves it are in page/, and texts of the program can never become markup. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"

/* count may not be 0. */
void html_write(FILE *out, struct stats_file *const *records, size_t count);
