/* top_page.c: see top_page.h. Figures of a card are whole MiB that add up as they are shown. It
 * must not print, and not ask the terminal anything. */
#include "show/top_page.h"
#include "show/top_events.h"
#include "show/top_hints.h"
#include "show/summary.h"
#include "show/summary_lines.h"
#include "read/derived.h"
#include "read/program.h"
#include "read/units.h"
#include "judge/verdict.h"
#include "base/base.h"
#include "base/text.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NARROW = 64, WITHOUT_LIVE = 48, FIGURE_COLUMNS = 43, MOST_EVENTS = 32 };

/* There is no room for bars, nor for all figures. */
static bool is_narrow(int columns) {
    return columns < NARROW;
}

/* ---- lines ---- */

static struct page_line *add_line(struct page *page, enum page_style style) {
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

__attribute__((format(printf, 3, 4))) static void add(struct page *page, enum page_style style,
                                                      const char *format, ...) {
    struct page_line *line = add_line(page, style);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
}

/* Exactly so many columns of a text. */
static void add_padded(struct text *text, const char *word, size_t columns) {
    size_t length = bytes_of_columns(word, columns), shown = 0;
    for (size_t i = 0; i < length; i++)
        shown += ((unsigned char)word[i] & 0xc0) != 0x80;
    text_add_n(text, word, length);
    for (; shown < columns; shown++)
        text_add(text, " ");
}

/* What fits between the left and the right edge. */
static void add_edges(struct page *page, enum page_style style, int columns, const char *left,
                      const char *right) {
    struct page_line *line = add_line(page, style);
    struct text text = TEXT_IN(line->text);
    size_t room = (size_t)columns - strlen(right);
    add_padded(&text, left, room - 1);
    text_format(&text, " %s", right);
}

/* All of it, on as many lines as it needs; pid 0: below what was said of the same one. */
static void add_wrapped(struct page *page, enum page_style style, uint64_t pid, const char *rest,
                        int columns) {
    int before = is_narrow(columns) ? 0 : 9;
    for (; pid || *rest; pid = 0) {
        struct page_line *line = add_line(page, style);
        struct text text = TEXT_IN(line->text);
        text_format(&text, pid ? "%*llu  " : "%*.0llu  ", before, (unsigned long long)pid);
        size_t length = bytes_of_columns(rest, (size_t)columns - text.length);
        const char *space = rest[length] ? memrchr(rest, ' ', length + 1) : NULL;
        length = space ? (size_t)(space - rest) : length;
        text_add_n(&text, rest, length);
        rest += length + strspn(rest + length, " ");
    }
}

/* ---- sums that add up as they are shown ---- */

struct adding {
    uint64_t bytes, mib;
};

static uint64_t mib_of(struct adding *adding, uint64_t bytes) {
    adding->bytes += bytes;
    uint64_t mib = (adding->bytes + MEBIBYTE / 2) / MEBIBYTE - adding->mib;
    adding->mib += mib;
    return mib;
}

static uint64_t rounded(uint64_t bytes) {
    struct adding adding = {0};
    return mib_of(&adding, bytes);
}

/* ---- bars ---- */

struct bar {
    struct text text;
    double columns_of_byte;
    double bytes;
    size_t columns, most;
};

static struct bar begin_bar(struct page_line *line, struct text text, uint64_t total_bytes,
                            size_t columns) {
    struct bar bar = {.text = text, .most = columns};
    line->bar_begin = text.length;
    bar.columns_of_byte = total_bytes ? (double)columns / (double)total_bytes : 0;
    return bar;
}

static void add_part(struct bar *bar, char letter, uint64_t bytes) {
    bar->bytes += (double)bytes;
    double end = bar->bytes * bar->columns_of_byte;
    for (; bar->columns < bar->most && (double)bar->columns + 0.5 <= end; bar->columns++)
        text_add_n(&bar->text, &letter, 1);
}

/* Where there is no room for it, held and idle say it. */
static int live_columns(int columns) {
    return columns < WITHOUT_LIVE ? 0 : 8;
}

/* Half of what a terminal has beyond 80 columns is the programs'. */
static size_t program_columns(int columns) {
    return is_narrow(columns) ? (size_t)(columns - 27 - live_columns(columns))
           : columns < 80     ? 20
                              : 20 + (size_t)(columns - 80) / 2;
}

static size_t bar_columns(int columns) {
    size_t others = FIGURE_COLUMNS + program_columns(columns);
    return (size_t)columns > others ? (size_t)columns - others : 0;
}

static void write_card_bar(struct page *page, const struct card *card, int columns) {
    struct page_line *line = add_line(page, PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    text_add(&text, "  [");
    struct bar bar = begin_bar(line, text, card->total_bytes, (size_t)columns - 4);
    for (size_t i = 0; i < card->row_count; i++) {
        add_part(&bar, '#', card->rows[i].live_bytes);
        add_part(&bar, ':', card->rows[i].idle_bytes);
        add_part(&bar, '+', card->rows[i].code_bytes);
    }
    for (size_t i = 0; i < card->other_count; i++)
        add_part(&bar, 'o', card->others[i].bytes);
    add_part(&bar, card->named ? '-' : 'o', card->known ? card->rest_bytes : 0);
    while (bar.columns++ < (size_t)columns - 4)
        text_add(&bar.text, " ");
    text_add(&bar.text, "]");
}

/* ---- the chosen process ---- */

static void write_totals(struct page *page, const struct stats_file *record, int columns) {
    uint64_t reclaims = 0, refusals = 0, ooms = 0, reclaimed = 0;
    for (size_t i = 0; i < record->file->device_count; i++) {
        const struct vramgc_device_stats *s = &record->file->devices[i].stats;
        reclaims += s->reclaims;
        refusals += s->refusals;
        ooms += s->ooms;
        reclaimed += s->reclaimed_bytes;
    }
    char line[160] = "";
    struct text text = TEXT_IN(line);
    if (reclaimed > 0)
        text_format(&text, "gave back %s, %s time%s", show_bytes(reclaimed).text,
                    show_count(reclaims).text, reclaims == 1 ? "" : "s");
    else
        text_add(&text, "gave nothing back yet");
    text_format(&text, "; refused: %s; out of memory: %s", show_count(refusals).text,
                show_count(ooms).text);
    add_wrapped(page, PAGE_PLAIN, 0, line, columns);
}

static void write_chosen(struct page *page, const struct running_process *process, int columns) {
    const struct stats_file *record = process->record;
    uint64_t age_ns = minus_u64(clock_ns(), record->file->started_ns);
    char line[PATH_MAX + 20];
    struct text text = TEXT_IN(line);
    add_wrapped(page, PAGE_TITLE, process->pid, record->file->command_line, columns);
    text_format(&text, "mode %s; peak %s; has used CUDA for %s", record->file->mode,
                show_bytes(to_u64(stats_file_held_peak(record))).text, show_time(age_ns).text);
    add_wrapped(page, PAGE_PLAIN, 0, line, columns);
    write_totals(page, record, columns);
    text = TEXT_IN(line);
    text_format(&text, "vramgc report %s", record->path);
    add_wrapped(page, PAGE_PLAIN, 0, line, columns);
}

/* ---- a card ---- */

static void write_card_title(struct page *page, const struct card *card, int columns) {
    char left[160], right[80];
    struct text text = TEXT_IN(left);
    text_format(&text, "GPU %zu  %s  %s", card->number, card->label.name, card->label.bus_id);
    text = TEXT_IN(right);
    uint64_t used = minus_u64(card->total_bytes, card->free_bytes);
    if (card->known)
        text_format(&text, "%.0f %% of %s MiB in use",
                    100 * (double)used / (double)max_u64(card->total_bytes, 1),
                    show_count(rounded(card->total_bytes)).text);
    add_edges(page, PAGE_TITLE, columns, left, is_narrow(columns) ? "" : right);
    if (is_narrow(columns))
        add(page, PAGE_PLAIN, "  %s", right);
}

static void write_sensors(struct page *page, const struct card_sensors *sensors) {
    char line[80] = "";
    struct text text = TEXT_IN(line);
    if (!sensors->known) {
        add(page, PAGE_PLAIN, "  no NVML: load, heat, power not known");
        return;
    }
    if (sensors->busy_percent >= 0)
        text_format(&text, "  busy %d %%", sensors->busy_percent);
    if (sensors->celsius >= 0)
        text_format(&text, "   %d C", sensors->celsius);
    if (sensors->watts >= 0)
        text_format(&text, "   %d W", sensors->watts);
    if (sensors->watts >= 0 && sensors->most_watts > 0)
        text_format(&text, " of %d W", sensors->most_watts);
    add(page, PAGE_PLAIN, "%s", line);
}

/* The latest minute, or more in a wide terminal, as high as the card. */
static bool write_history(struct page *page, const struct top_view *view, const struct card *card,
                          int columns) {
    char row[HISTORY_MOST_SECONDS + 1], name[32];
    bool wide = columns > 80;
    size_t room = min_u64((size_t)columns - (wide ? 15 : 14), wide ? HISTORY_MOST_SECONDS : 60);
    struct history_size size = {view->history_rows, room, wide ? room : HISTORY_SECONDS};
    struct figure total = show_bytes(card->total_bytes);
    size_t i = 0;
    snprintf(name, sizeof name, "last %zu s", size.seconds);
    for (; i < size.rows && history_row(&view->history, card, i, size, row); i++) {
        struct page_line *line = add_line(page, PAGE_PLAIN);
        struct text text = TEXT_IN(line->text);
        text_format(&text, "  |%s| %s", row, i == 0 ? total.text : i + 1 < size.rows ? "" : name);
        line->bar_begin = 3;
    }
    page->pictures += i > 0;
    return i > 0;
}

static void add_program(struct text *text, const struct vramgc_file *file, size_t columns) {
    char program[PROGRAM_BYTES];
    struct text name = TEXT_IN(program);
    program_describe(file, &name);
    add_padded(text, program, columns);
}

static void write_row(struct page *page, const struct top_view *view, const struct card *card,
                      const struct card_row *row, struct adding *adding, int columns) {
    bool chosen = row->process->pid == view->chosen_pid;
    struct page_line *line = add_line(page, chosen ? PAGE_CHOSEN : PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    text_format(&text, "%c%8llu ", adding->bytes ? '+' : ' ',
                (unsigned long long)row->process->pid);
    add_program(&text, row->process->record->file, program_columns(columns));
    if (live_columns(columns))
        text_format(&text, " %7s", show_count(rounded(row->live_bytes)).text);
    text_format(&text, " %7s", show_count(rounded(row->idle_bytes)).text);
    if (!is_narrow(columns))
        text_format(&text, " %6s", show_count(rounded(row->code_bytes)).text);
    text_format(&text, " %8s ", show_count(mib_of(adding, row->held_bytes)).text);
    if (is_narrow(columns))
        return;
    struct bar bar = begin_bar(line, text, card->total_bytes, bar_columns(columns));
    add_part(&bar, '#', row->live_bytes);
    add_part(&bar, ':', row->idle_bytes);
    add_part(&bar, '+', row->code_bytes);
}

static void write_part(struct page *page, const struct card *card, char sign, const char *name,
                       uint64_t mib, char letter, uint64_t bytes, int columns) {
    struct page_line *line = add_line(page, PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    text_format(&text, "%c%8s ", sign, "");
    add_padded(&text, name,
               program_columns(columns) + 8 + (size_t)live_columns(columns) +
                   (is_narrow(columns) ? 0 : 7));
    text_format(&text, " %8s ", show_count(mib).text);
    if (!letter || is_narrow(columns))
        return;
    struct bar bar = begin_bar(line, text, card->total_bytes, bar_columns(columns));
    add_part(&bar, letter, bytes);
}

static void write_others(struct page *page, const struct card *card, struct adding *adding,
                         int columns) {
    for (size_t i = 0; i < card->other_count; i++) {
        const struct card_other *other = &card->others[i];
        char name[80];
        struct text text = TEXT_IN(name);
        text_add(&text, other->name);
        if (other->pid)
            text_format(&text, ", pid %llu", (unsigned long long)other->pid);
        write_part(page, card, '+', name, mib_of(adding, other->bytes), 'o', other->bytes, columns);
    }
    write_part(page, card, '+', card->named ? "the driver and contexts" : "others and the driver",
               mib_of(adding, card->rest_bytes), card->named ? '-' : 'o', card->rest_bytes,
               columns);
}

static void write_card(struct page *page, const struct top_view *view, const struct card *card,
                       int columns) {
    struct adding adding = {0};
    write_card_title(page, card, columns);
    if (card->known && !view->low)
        write_card_bar(page, card, columns);
    bool rows = card->row_count > 0;
    if (card->sensors.known || !view->low)
        write_sensors(page, &card->sensors);
    bool drawn = write_history(page, view, card, columns);
    if (card->known && view->low && !drawn)
        write_card_bar(page, card, columns);
    bool narrow = is_narrow(columns), live = live_columns(columns) > 0;
    add(page, PAGE_HEADING, "%9s %-*s%*s %7s%*s %8s %s", rows ? "PID" : "",
        (int)program_columns(columns), rows ? "PROGRAM" : "", live_columns(columns),
        rows && live ? "LIVE" : "", rows ? "IDLE" : "", narrow ? 0 : 7,
        rows && !narrow ? "LIBS" : "", "HELD MiB", rows && !narrow ? "#live :idle +libs" : "");
    for (size_t i = 0; i < card->row_count; i++) {
        write_row(page, view, card, &card->rows[i], &adding, columns);
        if (page->chosen || card->rows[i].process->pid != view->chosen_pid)
            continue;
        page->chosen = page->count - 1;
        write_chosen(page, card->rows[i].process, columns);
    }
    if (card->known) {
        write_others(page, card, &adding, columns);
        write_part(page, card, '+', "free", mib_of(&adding, card->free_bytes), 0, 0, columns);
        write_part(page, card, '=', "card", adding.mib, 0, 0, columns);
    }
    add(page, PAGE_PLAIN, "%s", "");
}

/* ---- what happened last ---- */

static void write_action(struct text *text, const struct vramgc_action *action, bool narrow) {
    const char *kind = stats_file_action_name(action->kind);
    const char *reason = stats_file_reason_name(action->reason);
    text_format(text, narrow ? "%s " : "%-8s %-9s ", kind ? kind : "?", reason ? reason : "?");
    if (action->observed)
        text_format(text, "would give back %s",
                    show_bytes(minus_u64(action->before_bytes, action->after_bytes)).text);
    else if (action->asker)
        text_format(text, "gave %s to %s (%llu)", show_bytes(action->net_bytes).text,
                    action->asker_name, (unsigned long long)action->asker);
    else
        text_format(text, "gave back %s in %s", show_bytes(action->net_bytes).text,
                    show_time(action->took_ns).text);
}

static void write_refusal(struct text *text, const struct vramgc_refusal *refusal, bool narrow) {
    text_format(text, "%-*s %s wanted, %s free%s", narrow ? 0 : 18,
                refusal->reported == VRAMGC_REPORTED ? "OUT OF MEMORY" : "no room",
                show_bytes(refusal->request_bytes).text, show_bytes(refusal->free_bytes).text,
                refusal->granted ? "; granted later" : "");
}

static void write_events(struct page *page, const struct top_view *view, int columns) {
    struct top_event events[MOST_EVENTS];
    bool narrow = is_narrow(columns);
    uint64_t now_ns = clock_ns();
    size_t count = top_events(view, events, min_u64(view->most_events, MOST_EVENTS));
    if (count > 0)
        add(page, PAGE_HEADING,
            narrow ? "%.0s%-9s LAST RETURNED, OR NO ROOM"
                   : "%9s  %-9s  WHAT WAS RETURNED OR FOUND NO ROOM, NEWEST FIRST",
            "PID", "AGO");
    for (size_t i = 0; i < count; i++) {
        char what[120];
        struct text text = TEXT_IN(what);
        if (events[i].action)
            write_action(&text, events[i].action, narrow);
        else
            write_refusal(&text, events[i].refusal, narrow);
        if (narrow)
            add(page, PAGE_PLAIN, "%-9s %s", show_time(minus_u64(now_ns, events[i].time_ns)).text,
                what);
        else
            add(page, PAGE_PLAIN, "%9llu  %-9s  %s", (unsigned long long)events[i].process->pid,
                show_time(minus_u64(now_ns, events[i].time_ns)).text, what);
    }
}

/* ---- beside the figures ---- */

/* One that would say more under vramgc. */
static void write_strangers(struct page *page, const struct top_view *view, int columns) {
    size_t count = view->some_only ? 0 : view->running.stranger_count;
    for (size_t i = 0; i < count; i++) {
        const struct running_stranger *stranger = &view->running.strangers[i];
        char line[4 * PAGE_WIDEST] = "";
        struct text text = TEXT_IN(line);
        text_format(&text, "uses CUDA without vramgc; in %s start it by:", stranger->folder);
        add_wrapped(page, PAGE_PLAIN, stranger->pid, line, columns);
        text = TEXT_IN(line);
        text_format(&text, "vramgc run %s", stranger->command);
        add_wrapped(page, PAGE_PLAIN, 0, line, columns);
    }
    if (count > 0)
        add(page, PAGE_PLAIN, "%s", "");
}

static void write_programs(struct page *page, const struct top_view *view, int columns) {
    size_t before = page->count;
    for (size_t i = 0; i < view->running.count; i++) {
        const struct running_process *running = &view->running.list[i];
        const struct vramgc_file *file = running->record->file;
        const struct vramgc_process_stats *process = &file->process;
        const struct vramgc_host_look *look = &file->host.latest;
        char ram[120];
        struct text text = TEXT_IN(ram);
        text_format(&text, "RAM %s, %s swapped out; gave back %s", show_bytes(ram_bytes(look)).text,
                    show_bytes(look->swap_bytes).text,
                    show_bytes(process->host_released_bytes + process->pinned_released_bytes).text);
        if (look->time_ns)
            add_wrapped(page, PAGE_PLAIN, running->pid, ram, columns);
        struct top_hint hints[TOP_HINTS];
        size_t count = top_hints(running, &view->cards, hints);
        for (size_t j = 0; j < count; j++)
            add_wrapped(page, PAGE_PLAIN, running->pid, hints[j].text, columns);
    }
    if (page->count > before)
        add(page, PAGE_PLAIN, "%s", "");
}

/* ---- all ---- */

void top_page(struct page *page, const struct top_view *view, int columns) {
    char left[80], right[16] = "";
    struct text text = TEXT_IN(left);
    time_t now = time(NULL);
    struct tm tm;
    columns = columns < PAGE_NARROWEST ? PAGE_NARROWEST
              : columns > PAGE_WIDEST  ? PAGE_WIDEST
                                       : columns;
    page->count = page->pictures = page->chosen = 0;
    text_format(&text, "vramgc top  %zu %s%s, by %s", view->running.count,
                view->running.count == 1 ? "program" : "programs",
                is_narrow(columns) ? "" : " under vramgc", top_sort_name(view->sort));
    if (localtime_r(&now, &tm))
        strftime(right, sizeof right, "%H:%M:%S", &tm);
    add_edges(page, PAGE_TITLE, columns, left, right);
    if (!view->low)
        add(page, PAGE_PLAIN, "%s", "");
    if (view->running.count == 0) {
        if (*view->filter)
            add(page, PAGE_PLAIN, "No program under vramgc matches \"%s\".", view->filter);
        else
            add(page, PAGE_PLAIN, "%s",
                view->some_only ? "None of these processes runs under vramgc now."
                                : "None runs now. `vramgc run COMMAND` starts one.");
        add(page, PAGE_PLAIN, "%s", "");
    }
    for (size_t i = 0; i < view->cards.count; i++)
        write_card(page, view, &view->cards.list[i], columns);
    page->cards_end = page->count;
    write_programs(page, view, columns);
    write_strangers(page, view, columns);
    write_events(page, view, columns);
    for (size_t i = 0; i < page->count; i++)
        page->lines[i].text[bytes_of_columns(page->lines[i].text, (size_t)columns)] = 0;
}

void top_free(struct top_view *view, struct page *page) {
    cards_free(&view->cards);
    running_free(&view->running);
    free(page->lines);
    *page = (struct page){0};
}
