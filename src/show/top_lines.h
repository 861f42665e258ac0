/* top_lines.h: lines of the page of `vramgc top`: texts, bars, and sums that add up as they are
 * shown. It must not print, and not ask the terminal anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/running.h"
#include "base/text.h"

enum page_style { PAGE_PLAIN, PAGE_TITLE, PAGE_HEADING, PAGE_CHOSEN };

enum { PAGE_WIDEST = 160, PAGE_NARROWEST = 40 };

/* Live, idle, libs, others, driver, free, not known. */
#define BAR_LETTERS "#^:+o- ?"

struct page_line {
    char text[4 * PAGE_WIDEST + 1];
    enum page_style style;
    size_t bar_begin; /* in text: a bar, as long as there are its letters; 0: none */
};

struct page {
    struct page_line *lines;
    size_t count, room;
    size_t cards_end; /* behind the last line of the cards and their programs */
    size_t pictures;  /* of a card's latest minute */
    size_t glance;    /* the first line of all cards in a line each */
    size_t chosen;    /* the line of the chosen program's first row; 0: none */
};

/* There is no room for bars, nor for all figures. */
bool page_is_narrow(int columns);

/* Without memory a line is missing. */
struct page_line *page_add_line(struct page *page, enum page_style style);
void page_add(struct page *page, enum page_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Exactly so many columns of a text. */
void page_pad(struct text *text, const char *word, size_t columns);

/* A line from the left to the right edge; the left text is cut. */
void page_add_edges(struct page *page, enum page_style style, int columns, const char *left,
                    const char *right);

/* All of it, on as many lines as it needs; pid 0: of the program above. */
void page_add_wrapped(struct page *page, enum page_style style, uint64_t pid, const char *rest,
                      int columns);

/* The same of what printf() makes of it, below the program above. */
void page_say(struct page *page, int columns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* So from the left edge. */
void page_add_told(struct page *page, const char *words, int columns);

/* One line of it, below the program above. */
void page_add_cut(struct page *page, const char *rest, int columns);

/* Parts of a sum as whole MiB: what is shown of them adds up to what is shown of it. */
struct adding {
    uint64_t bytes, mib;
};
uint64_t adding_mib(struct adding *adding, uint64_t bytes);
uint64_t mib_rounded(uint64_t bytes);

/* Parts of a whole side by side, to the end of the line. */
struct bar {
    struct text text;
    double columns_of_byte;
    double bytes;
    size_t columns, most;
};
struct bar bar_begin(struct page_line *line, struct text text, uint64_t total_bytes,
                     size_t columns);
void bar_add(struct bar *bar, char letter, uint64_t bytes);

/* The name of a program in its row: exactly so many columns of "ComfyUI: main.py --listen".
 * Where that of another program of the list would read the same, the folder that both have goes,
 * and then the words that both have. */
void top_program(struct text *out, const struct running *running,
                 const struct running_process *process, size_t columns);
