/* summary_who.h: a table of the page of text. */
#pragma once

#include <stdio.h>

#include "read/stats_file.h"
#include "judge/who.h"

/* As who_name, shortened to so many columns where that is possible. */
struct who_name summary_who_name(const struct vramgc_site *site, size_t columns);

/* Whose live memory was; nothing where no owner is known. all: SIZE_MAX. */
void summary_who(FILE *out, const struct stats_file *record, size_t most_rows);
