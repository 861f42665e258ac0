/* top_page.h: what `vramgc top` shows, as lines of text: the same for a terminal, where keys change
 * it, and for --once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "show/top_view.h"

enum page_style { PAGE_PLAIN, PAGE_TITLE, PAGE_HEADING, PAGE_CHOSEN };

enum { PAGE_WIDEST = 160, PAGE_NARROWEST = 40 };

struct page_line {
    char text[4 * PAGE_WIDEST + 1];
    enum page_style style;
    size_t bar_begin; /* in text: a bar of # : + o and -, to its end; 0: none */
};

struct page {
    struct page_line *lines;
    size_t count, room;
    size_t cards_end; /* behind the last line of the cards and their programs */
    size_t pictures;  /* of a card's latest minute */
    size_t chosen;    /* the line of the chosen program's first row; 0: none */
};

/* Lines of at most so many columns. Its memory is used again at the next call. */
void top_page(struct page *page, const struct top_view *view, int columns);

void top_free(struct top_view *view, struct page *page);
