/* top_details.h: what `vramgc top` says below the row of a program: a line of what it does, and
 * all that is known of the chosen one. */
#pragma once

#include "show/top_lines.h"
#include "show/top_view.h"

/* Below its first row. */
void top_details(struct page *page, const struct top_view *view, const struct card_row *row,
                 int columns);
