/* top_lines.c: see top_lines.h. */
#include "show/top_lines.h"
#include "show/summary_lines.h"
#include "read/stats_file.h"
#include "base/base.h"

#include <limits.h>
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
    FORMAT_ARGUMENTS(line->text, format);
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

/* Words about a program stand behind its number. */
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
        text_format(&text, pid ? "%*lu  " : "%*.0lu  ", before, pid);
        rest = add_words(&text, rest, columns);
    }
}

void page_say(struct page *page, int columns, const char *format, ...) {
    char words[PATH_MAX + 64];
    FORMAT_ARGUMENTS(words, format);
    page_add_wrapped(page, PAGE_PLAIN, 0, words, columns);
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

/* ---- what a program is called in its row: it must not say what its command does not ---- */

/* So much of what differs is seen, and from so many columns on the script's name before it. */
enum { LEAST_SEEN = 4, WITH_NAME = 20 };

static size_t same_bytes(const char *a, const char *b) {
    size_t i = 0;
    while (a[i] && a[i] == b[i])
        i++;
    return i;
}

/* In so many columns, to its last letter. */
static size_t shown_bytes(const char *whole, size_t columns) {
    size_t length = bytes_of_columns(whole, columns);
    while (length > 0 && whole[length - 1] == ' ')
        length--;
    return length;
}

/* Up to where the most alike reads the same, of those that do in all columns; 0: there is none. */
static size_t most_alike(const struct running *running, const char *whole, size_t columns) {
    size_t most = 0, shown = shown_bytes(whole, columns);
    for (size_t i = 0; i < running->count; i++) {
        TEXT_OVER(text, other, PROGRAM_BYTES);
        program_describe(running->list[i].record->file, &text);
        size_t same = same_bytes(whole, other);
        if (same < shown || shown_bytes(other, columns) != shown || (!whole[same] && !other[same]))
            continue;
        bool has_more_words = whole[same] == ' ' && !other[same];
        most = max_u64(most, same + has_more_words);
    }
    return most;
}

/* The word that differs; of a long one the part that does. */
static const char *different_part(const char *whole, size_t same, size_t room) {
    size_t begin = same, length = strlen(whole + same);
    size_t before = room - min_u64(room, min_u64(length, LEAST_SEEN));
    while (begin > 0 && whole[begin - 1] != ' ')
        begin--;
    while (columns_of_bytes(whole + begin, same - begin) > before)
        begin += bytes_of_columns(whole + begin, 1);
    return whole + begin;
}

void top_program(struct text *out, const struct running *running,
                 const struct running_process *process, size_t columns) {
    char whole[PROGRAM_BYTES], part[PROGRAM_BYTES];
    struct text all = TEXT_IN(whole), text = TEXT_IN(part);
    program_describe(process->record->file, &all);
    struct program_words program = program_of(process->record->file);
    size_t same = most_alike(running, whole, columns);
    size_t folder = strlen(whole) - strlen(program.command);
    bool of_folder = same >= folder;
    if (same == 0) {
        page_pad(out, whole, columns);
        return;
    }
    if (of_folder && columns_of_bytes(whole + folder, same - folder) < columns) {
        page_pad(out, program.command, columns);
        return;
    }
    size_t name = bytes_of_columns(program.command, columns / 2);
    if (of_folder && columns >= WITH_NAME) {
        text_add_n(&text, program.command, min_u64(name, program_name_length(&program)));
        text_add(&text, " ");
    }
    text_add(&text, "..");
    text_add(&text, different_part(whole, same, columns - columns_of_bytes(part, strlen(part))));
    page_pad(out, part, columns);
}
