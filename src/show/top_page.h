/* top_page.h: what `vramgc top` shows, as lines of text: the same for a terminal, where keys change
 * it, and for --once. */
#pragma once

#include "show/top_lines.h"
#include "show/top_view.h"

/* Lines of at most so many columns. Its memory is used again at the next call. */
void top_page(struct page *page, const struct top_view *view, int columns);

void top_free(struct top_view *view, struct page *page);
