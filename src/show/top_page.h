/* top_page.h: what `vramgc top` shows, as lines of text: the same for a terminal, where keys change
 * it, and for --once. */
#ifndef TOP_PAGE_H
#define TOP_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/cards.h"

enum top_sort { TOP_BY_HELD, TOP_BY_LIVE, TOP_BY_IDLE, TOP_BY_PID, TOP_SORTS };

/* "held", "live", "idle", "pid". */
const char *top_sort_name(enum top_sort sort);

enum page_style { PAGE_PLAIN, PAGE_TITLE, PAGE_HEADING, PAGE_CHOSEN };

enum { PAGE_WIDEST = 160, PAGE_NARROWEST = 64 };

struct page_line {
    char text[4 * PAGE_WIDEST + 1];
    enum page_style style;
    size_t bar_begin; /* in text: a bar of # : + o and -, to its end; 0: none */
};

struct page {
    struct page_line *lines;
    size_t count, room;
};

struct top_view {
    struct running running;
    struct cards cards;
    enum top_sort sort;
    uint64_t chosen_pid; /* its details are shown; 0: none */
    bool some_only;      /* others may run */
    size_t most_events;
};

/* Reads all anew. pids: only these processes, none: all of this user. */
void top_refresh(struct top_view *view, const uint64_t *pids, size_t pid_count);

/* The next process below (step 1) or above (-1) the chosen one becomes it. */
void top_choose(struct top_view *view, int step);

/* Lines of at most so many columns. Its memory is used again at the next call. */
void top_page(struct page *page, const struct top_view *view, int columns);

void top_free(struct top_view *view, struct page *page);

#endif
