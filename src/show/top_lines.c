/* top_lines.c: see top_lines.h. */
#include "show/top_lines.h"
#include "show/summary_lines.h"
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NARROW = 64 };

bool page_is_narrow(int columns) {
    return columns < NARROW;
}

/* ---- lines ---- */

struct page_line *page_add_line(struct page *page, enum page_style style) {
    static struct page_line lost; /* without memory a line is missing */
    if (page->count == page->room) {
        size_t room = 2 * page->room + 32;
        struct page_line *lines = realloc(page->lines, room * sizeof *lines);
        if (!lines)
            return &lost;
        page->lines = lines;
        page->room = room;
    }
    struct page_line *line = &page->lines[page->count++];
    line->text[0] = 0;
    line->style = style;
    line->bar_begin = 0;
    return line;
}

void page_add(struct page *page, enum page_style style, const char *format, ...) {
    struct page_line *line = page_add_line(page, style);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
}

void page_pad(struct text *text, const char *word, size_t columns) {
    size_t length = bytes_of_columns(word, columns);
    text_add_n(text, word, length);
    for (size_t shown = columns_of_bytes(word, length); shown < columns; shown++)
        text_add(text, " ");
}

void page_add_edges(struct page *page, enum page_style style, int columns, const char *left,
                    const char *right) {
    struct page_line *line = page_add_line(page, style);
    struct text text = TEXT_IN(line->text);
    size_t room = (size_t)columns - strlen(right);
    page_pad(&text, left, room - 1);
    text_format(&text, " %s", right);
}

/* What is said of a program stands behind its number. */
static int before_columns(int columns) {
    return page_is_narrow(columns) ? 0 : 9;
}

/* As many words as there is room for; where the others begin. */
static const char *add_words(struct text *text, const char *words, int columns) {
    size_t length = bytes_of_columns(words, (size_t)columns - text->length);
    const char *space = words[length] ? memrchr(words, ' ', length + 1) : NULL;
    length = space ? (size_t)(space - words) : length;
    text_add_n(text, words, length);
    return words + length + strspn(words + length, " ");
}

void page_add_wrapped(struct page *page, enum page_style style, uint64_t pid, const char *rest,
                      int columns) {
    int before = before_columns(columns);
    for (; pid || *rest; pid = 0) {
        struct page_line *line = page_add_line(page, style);
        struct text text = TEXT_IN(line->text);
        text_format(&text, pid ? "%*llu  " : "%*.0llu  ", before, (unsigned long long)pid);
        rest = add_words(&text, rest, columns);
    }
}

void page_add_told(struct page *page, const char *words, int columns) {
    while (*words) {
        struct page_line *line = page_add_line(page, PAGE_PLAIN);
        struct text text = TEXT_IN(line->text);
        words = add_words(&text, words, columns);
    }
}

void page_add_cut(struct page *page, const char *rest, int columns) {
    struct page_line *line = page_add_line(page, PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    text_format(&text, "%*s  ", before_columns(columns), "");
    size_t room = (size_t)columns - text.length, length = bytes_of_columns(rest, room);
    bool whole = !rest[length];
    text_add_n(&text, rest, whole ? length : bytes_of_columns(rest, room - 2));
    text_add(&text, whole ? "" : "..");
}

/* ---- sums that add up as they are shown ---- */

uint64_t adding_mib(struct adding *adding, uint64_t bytes) {
    adding->bytes += bytes;
    uint64_t mib = (adding->bytes + MEBIBYTE / 2) / MEBIBYTE - adding->mib;
    adding->mib += mib;
    return mib;
}

uint64_t mib_rounded(uint64_t bytes) {
    struct adding adding = {0};
    return adding_mib(&adding, bytes);
}

/* ---- bars ---- */

struct bar bar_begin(struct page_line *line, struct text text, uint64_t total_bytes,
                     size_t columns) {
    struct bar bar = {.text = text, .most = columns};
    line->bar_begin = text.length;
    bar.columns_of_byte = total_bytes ? (double)columns / (double)total_bytes : 0;
    return bar;
}

void bar_add(struct bar *bar, char letter, uint64_t bytes) {
    bar->bytes += (double)bytes;
    double end = bar->bytes * bar->columns_of_byte;
    for (; bar->columns < bar->most && (double)bar->columns + 0.5 <= end; bar->columns++)
        text_add_n(&bar->text, &letter, 1);
}
