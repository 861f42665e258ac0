/* html_tables.h: the figures of one process as tables of a page, which need no script; and text in
 * a page, with no letter of it read as markup. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"

/* number: of the process in the page's JSON report. */
void html_tables_write(FILE *out, const struct stats_file *record, size_t number);

void html_text(FILE *out, const char *text);

/* <NAME CLASS>text</NAME>: a cell, a term; name may carry attributes of our own, such as
 * td class="t". No line ends within an option, such as --spill. */
void html_element(FILE *out, const char *name, const char *text);
