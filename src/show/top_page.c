/* top_page.c: see top_page.h. Figures of a card are whole MiB that add up as they are shown. It
 * must not print, and not ask the terminal anything. */
#include "show/top_page.h"
#include "show/summary.h"
#include "show/summary_lines.h"
#include "show/top_details.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WITHOUT_IDLE = 48, WITH_GPU = 80, WITH_LOAD = 100, FIGURE_COLUMNS = 43, MOST_EVENTS = 32 };

/* Where there is no room for it, held and live say it. */
static int idle_columns(int columns) {
    return columns < WITHOUT_IDLE ? 0 : 8;
}

static int libs_columns(int columns) {
    return page_is_narrow(columns) ? 0 : 7;
}

/* GPU %, and of the processor's side CPU % and RAM. */
static int load_columns(int columns) {
    return columns < WITH_GPU ? 0 : columns < WITH_LOAD ? 6 : 20;
}

/* Half of what a terminal has beyond 80 columns is the programs'. */
static size_t program_columns(int columns) {
    int least = columns < WITH_LOAD ? WITH_GPU : WITH_LOAD;
    return page_is_narrow(columns) ? (size_t)(columns - 27 - idle_columns(columns))
           : columns < WITH_GPU    ? 20
                                   : 20 + (size_t)(columns - least) / 2;
}

static size_t bar_columns(int columns) {
    size_t others = FIGURE_COLUMNS + program_columns(columns) + (size_t)load_columns(columns);
    return (size_t)columns > others ? (size_t)columns - others : 0;
}

static void add_program_parts(struct bar *bar, const struct card_row *row) {
    bar_add(bar, '#', row->live_bytes);
    bar_add(bar, ':', row->idle_bytes);
    bar_add(bar, '+', row->code_bytes);
}

/* Between brackets. */
static void add_card_bar(struct page_line *line, struct text *text, const struct card *card,
                         size_t columns) {
    text_add(text, "[");
    struct bar bar = bar_begin(line, *text, card->total_bytes, columns - 2);
    for (size_t i = 0; i < card->row_count; i++)
        add_program_parts(&bar, &card->rows[i]);
    for (size_t i = 0; i < card->other_count; i++)
        bar_add(&bar, 'o', card->others[i].bytes);
    bar_add(&bar, card->named ? '-' : 'o', card->known ? card->rest_bytes : 0);
    while (bar.columns++ < columns - 2)
        text_add(&bar.text, card->known ? " " : "?");
    *text = bar.text;
    text_add(text, "]");
}

static void write_card_bar(struct page *page, const struct card *card, int columns) {
    struct page_line *line = page_add_line(page, PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    text_add(&text, "  ");
    add_card_bar(line, &text, card, (size_t)columns - 2);
}

static double percent_used(const struct card *card) {
    double used = (double)minus_u64(card->total_bytes, card->free_bytes);
    return 100 * used / (double)max_u64(card->total_bytes, 1);
}

/* Where there are more cards than fit on the screen each has a line all the same. So has one
 * without a program that is looked for. */
static void write_glance(struct page *page, const struct card *card, int columns) {
    enum { NUMBER = 7, FULL = 18, BUSY = 13 };
    struct page_line *line = page_add_line(page, PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    size_t words = FULL + (page_is_narrow(columns) ? 0 : BUSY);
    text_format(&text, "GPU %-2zu ", card->number);
    add_card_bar(line, &text, card, (size_t)columns - NUMBER - words);
    if (card->known)
        text_format(&text, " %3.0f %% of %s", percent_used(card),
                    show_bytes(card->total_bytes).text);
    else
        text_add(&text, " use not known");
    if (words > FULL && card->sensors.known && card->sensors.busy_percent >= 0)
        text_format(&text, "  busy %d %%", card->sensors.busy_percent);
}

/* ---- a card ---- */

/* A figure that has no room is left out whole. */
static void add_if_room(struct text *text, size_t room, const char *format, int figure) {
    char words[32];
    int length = snprintf(words, sizeof words, format, figure);
    text_add(text, figure >= 0 && text->length + (size_t)length <= room ? words : "");
}

static void add_sensors(struct text *text, const struct card_sensors *sensors, size_t room) {
    add_if_room(text, room, "  busy %d %%", sensors->busy_percent);
    add_if_room(text, room, "   %d C", sensors->celsius);
    size_t before = text->length;
    add_if_room(text, room, "   %d W", sensors->watts);
    if (text->length > before && sensors->most_watts > 0)
        add_if_room(text, room, " of %d W", sensors->most_watts);
}

/* Its name, how full it is, and how busy; in a low and narrow terminal in two lines. */
static void write_card_title(struct page *page, const struct top_view *view,
                             const struct card *card, int columns) {
    char left[160], right[80] = "", sensors[80] = "";
    struct text text = TEXT_IN(left), full = TEXT_IN(right), busy = TEXT_IN(sensors);
    text_format(&text, "GPU %zu  %s  %s", card->number, card->label.name, card->label.bus_id);
    struct figure mib = show_count(mib_rounded(card->total_bytes));
    if (card->known)
        text_format(&full, "%.0f %% of %s MiB in use", percent_used(card), mib.text);
    else
        text_format(&full, "%s MiB, use not known", mib.text);
    bool narrow = page_is_narrow(columns), joined = narrow && view->low;
    if (card->sensors.known)
        add_sensors(&busy, &card->sensors, (size_t)columns - (joined ? full.length + 2 : 0));
    page_add_edges(page, PAGE_TITLE, columns, left, narrow ? "" : right);
    if (narrow)
        page_add(page, PAGE_PLAIN, "  %s%s", right, joined ? sensors : "");
    if (!view->low && !view->glance)
        write_card_bar(page, card, columns);
    if (*sensors && !joined)
        page_add(page, PAGE_PLAIN, "%s", sensors);
}

static void write_busy(struct page *page, const struct top_view *view, const struct card *card,
                       struct history_size size) {
    char row[4 * HISTORY_MOST_SECONDS] = "";
    struct text text = TEXT_IN(row);
    if (history_busy_row(&view->history, card, size, view->blocks, &text))
        page_add(page, PAGE_PLAIN, "  |%s| %s", row, view->blocks ? "GPU busy" : "busy x 10 %");
}

/* The latest minute, or more in a wide terminal. */
static bool write_history(struct page *page, const struct top_view *view, const struct card *card,
                          int columns) {
    enum { LABEL = 16 };
    char row[HISTORY_MOST_SECONDS + 1], name[32], whole[48] = "";
    bool wide = columns > 80;
    size_t room = min_u64((size_t)columns - LABEL, wide ? HISTORY_MOST_SECONDS : HISTORY_SECONDS);
    struct history_size size = {view->history_rows, room, wide ? room : HISTORY_SECONDS,
                                history_top_bytes(&view->history, card)};
    size_t i = 0;
    snprintf(name, sizeof name, "last %zu s", size.seconds);
    if (size.top_bytes < card->total_bytes)
        snprintf(whole, sizeof whole, "of %s", show_bytes(card->total_bytes).text);
    for (; i < size.rows && history_row(&view->history, card, i, size, row); i++) {
        struct page_line *line = page_add_line(page, PAGE_PLAIN);
        struct text text = TEXT_IN(line->text);
        text_format(&text, "  |%s| %s", row,
                    i == 0               ? show_bytes(size.top_bytes).text
                    : i + 1 == size.rows ? name
                    : i == 1             ? whole
                                         : "");
        line->bar_begin = 3;
    }
    page->pictures += i > 0;
    if (i > 0 && view->busy_rows)
        write_busy(page, view, card, size);
    return i > 0;
}

static void add_percent(struct text *text, int percent) {
    if (percent < 0)
        text_add(text, "     -");
    else
        text_format(text, " %5d", percent);
}

static void add_load(struct text *text, const struct card_row *row, int columns) {
    const struct vramgc_host_look *look = &row->process->record->file->host.latest;
    add_percent(text, row->gpu_percent);
    if (columns < WITH_LOAD)
        return;
    add_percent(text, row->process->cpu_percent);
    text_format(text, " %7s", look->time_ns ? show_count(mib_rounded(ram_bytes(look))).text : "-");
}

static void write_heading(struct page *page, bool rows, int columns) {
    static const char all[] = "#live ^at times :idle +libs";
    struct page_line *line = page_add_line(page, PAGE_HEADING);
    struct text text = TEXT_IN(line->text);
    text_format(&text, "%9s %-*s %*.*s%*s%*s%*s %8s %s", rows ? "PID" : "",
                (int)program_columns(columns) - 1, rows ? "PROGRAM" : "", load_columns(columns),
                load_columns(columns), rows ? "  GPU%  CPU% RAM MiB" : "", 8, rows ? "LIVE" : "",
                idle_columns(columns), rows && idle_columns(columns) ? "IDLE" : "",
                libs_columns(columns), rows && libs_columns(columns) ? "LIBS" : "", "HELD MiB",
                !rows || page_is_narrow(columns)    ? ""
                : bar_columns(columns) < sizeof all ? "#live :idle +libs"
                                                    : all);
}

static void top_row(struct page *page, const struct top_view *view, const struct card *card,
                    const struct card_row *row, struct adding *adding, int columns) {
    bool chosen = row->process->pid == view->chosen_pid;
    struct page_line *line = page_add_line(page, chosen ? PAGE_CHOSEN : PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    text_format(&text, "%9lu ", row->process->pid);
    top_program(&text, &view->running, row->process, program_columns(columns));
    if (load_columns(columns))
        add_load(&text, row, columns);
    text_format(&text, " %7s", show_count(mib_rounded(row->live_bytes)).text);
    if (idle_columns(columns))
        text_format(&text, " %7s", show_count(mib_rounded(row->idle_bytes)).text);
    if (libs_columns(columns))
        text_format(&text, " %6s", show_count(mib_rounded(row->code_bytes)).text);
    text_format(&text, " %8s ", show_count(adding_mib(adding, row->held_bytes)).text);
    if (page_is_narrow(columns))
        return;
    struct bar bar = bar_begin(line, text, card->total_bytes, bar_columns(columns));
    add_program_parts(&bar, row);
}

static void top_part(struct page *page, const struct card *card, char sign, const char *name,
                     uint64_t mib, char letter, uint64_t bytes, int columns) {
    struct page_line *line = page_add_line(page, PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    text_format(&text, "%c%8s ", sign, "");
    page_pad(&text, name,
             program_columns(columns) + 8 + (size_t)load_columns(columns) +
                 (size_t)idle_columns(columns) + (size_t)libs_columns(columns));
    text_format(&text, " %8s ", show_count(mib).text);
    if (!letter || page_is_narrow(columns))
        return;
    struct bar bar = bar_begin(line, text, card->total_bytes, bar_columns(columns));
    bar_add(&bar, letter, bytes);
}

static void top_others(struct page *page, const struct card *card, struct adding *adding,
                       int columns) {
    for (size_t i = 0; i < card->other_count; i++) {
        const struct card_other *other = &card->others[i];
        TEXT_OVER(text, name, 80);
        text_add(&text, other->name);
        if (other->pid)
            text_format(&text, ", pid %lu", other->pid);
        top_part(page, card, '+', name, adding_mib(adding, other->bytes), 'o', other->bytes,
                 columns);
    }
}

static void top_rest(struct page *page, const struct card *card, struct adding *adding,
                     int columns) {
    top_part(page, card, '+', card->named ? "driver and contexts" : "others and the driver",
             adding_mib(adding, card->rest_bytes), card->named ? '-' : 'o', card->rest_bytes,
             columns);
    top_part(page, card, '+', "free", adding_mib(adding, card->free_bytes), 0, 0, columns);
    top_part(page, card, '=', "card", adding->mib, 0, 0, columns);
}

/* A program's rows on cards further down have nothing below them. */
static bool is_first_row(const struct cards *cards, const struct card_row *row) {
    for (size_t i = 0; i < cards->count; i++)
        for (size_t j = 0; j < cards->list[i].row_count; j++)
            if (cards->list[i].rows[j].process == row->process)
                return &cards->list[i].rows[j] == row;
    return false;
}

static void top_card(struct page *page, const struct top_view *view, const struct card *card,
                     int columns) {
    struct adding adding = {0};
    write_card_title(page, view, card, columns);
    bool drawn = write_history(page, view, card, columns);
    if (view->low && !drawn && !view->glance)
        write_card_bar(page, card, columns);
    write_heading(page, card->row_count > 0, columns);
    for (size_t i = 0; i < card->row_count; i++) {
        const struct card_row *row = &card->rows[i];
        top_row(page, view, card, row, &adding, columns);
        if (!is_first_row(&view->cards, row))
            continue;
        if (row->process->pid == view->chosen_pid)
            page->chosen = page->count - 1;
        top_details(page, view, row, columns);
    }
    top_others(page, card, &adding, columns);
    if (card->known)
        top_rest(page, card, &adding, columns);
    page_add(page, PAGE_PLAIN, "%s", "");
}

/* None of their programs is looked for. */
static void write_cards_without(struct page *page, const struct cards *cards, int columns) {
    size_t before = page->count;
    for (size_t i = 0; i < cards->count; i++)
        if (cards->list[i].row_count == 0)
            write_glance(page, &cards->list[i], columns);
    if (page->count > before)
        page_add(page, PAGE_PLAIN, "%s", "");
}

static void top_cards(struct page *page, const struct top_view *view, int columns) {
    bool sensors = view->cards.count == 0, found = top_found(view);
    page->glance = page->count;
    for (size_t i = 0; view->glance && i < view->cards.count; i++)
        write_glance(page, &view->cards.list[i], columns);
    for (size_t i = 0; i < view->cards.count; i++) {
        sensors = sensors || view->cards.list[i].sensors.known;
        if (!found || view->cards.list[i].row_count > 0)
            top_card(page, view, &view->cards.list[i], columns);
    }
    if (found)
        write_cards_without(page, &view->cards, columns);
    page->cards_end = page->count;
    if (!sensors)
        page_add_told(page, "No NVML: load, heat and power are not known.", columns);
}

/* ---- what happened last ---- */

struct top_event {
    uint64_t time_ns; /* of CLOCK_MONOTONIC */
    const struct running_process *process;
    const struct vramgc_action *action; /* or */
    const struct vramgc_refusal *refusal;
};

/* Newest first; what is older than all of a full list is left out. */
static size_t insert_event(struct top_event *events, size_t count, size_t most,
                           struct top_event event) {
    size_t place = count;
    while (place > 0 && events[place - 1].time_ns < event.time_ns)
        place--;
    if (place >= most)
        return count;
    size_t kept = count < most ? count : most - 1;
    memmove(&events[place + 1], &events[place], (kept - place) * sizeof event);
    events[place] = event;
    return kept + 1;
}

/* The newest first; how many, at most so many. */
static size_t top_events(const struct top_view *view, struct top_event *events, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < view->running.count; i++) {
        const struct running_process *process = &view->running.list[i];
        const struct stats_file *record = process->record;
        struct top_event event = {.process = process};
        for (size_t j = 0; j < record->action_count; j++) {
            event.action = record->actions[j];
            event.time_ns = record->file->started_ns + event.action->time_ns;
            if (!is_small_reclaim(event.action))
                count = insert_event(events, count, most, event);
        }
        event.action = NULL;
        for (size_t j = 0; j < record->refusal_count; j++) {
            event.refusal = record->refusals[j];
            event.time_ns = record->file->started_ns + event.refusal->time_ns;
            count = insert_event(events, count, most, event);
        }
    }
    return count;
}

static void top_action(struct text *text, const struct vramgc_action *action, bool narrow) {
    const char *kind = stats_file_action_name(action->kind);
    const char *reason = stats_file_reason_name(action->reason);
    text_format(text, narrow ? "%s " : "%-8s %-9s ", kind ? kind : "?", reason ? reason : "?");
    if (action->observed)
        text_format(text, "would give back %s",
                    show_bytes(minus_u64(action->before_bytes, action->after_bytes)).text);
    else if (*action->asker_name)
        text_format(text, "gave %s to %s%s", show_bytes(action->net_bytes).text, action->asker_name,
                    asker_pid(action).text);
    else
        text_format(text, "gave back %s in %s", show_bytes(action->net_bytes).text,
                    show_time(action->took_ns).text);
}

static void top_refusal(struct text *text, const struct vramgc_refusal *refusal, bool narrow) {
    text_format(text, "%-*s %s wanted, %s free%s", narrow ? 0 : 18,
                refusal->reported == VRAMGC_REPORTED ? "OUT OF MEMORY" : "no room",
                show_bytes(refusal->request_bytes).text, show_bytes(refusal->free_bytes).text,
                refusal->granted ? "; granted later" : "");
}

static void top_event_lines(struct page *page, const struct top_view *view, int columns) {
    struct top_event events[MOST_EVENTS];
    bool narrow = page_is_narrow(columns);
    uint64_t now_ns = clock_ns();
    size_t count = top_events(view, events, min_u64(view->most_events, MOST_EVENTS));
    if (count > 0)
        page_add(page, PAGE_HEADING,
                 narrow ? "%.0s%-9s LAST RETURNED, OR NO ROOM"
                        : "%9s  %-9s  WHAT WAS RETURNED OR FOUND NO ROOM, NEWEST FIRST",
                 "PID", "AGO");
    for (size_t i = 0; i < count; i++) {
        TEXT_OVER(text, what, 120);
        if (events[i].action)
            top_action(&text, events[i].action, narrow);
        else
            top_refusal(&text, events[i].refusal, narrow);
        if (narrow)
            page_add(page, PAGE_PLAIN, "%-9s %s",
                     show_time(minus_u64(now_ns, events[i].time_ns)).text, what);
        else
            page_add(page, PAGE_PLAIN, "%9lu  %-9s  %s", events[i].process->pid,
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
        page_add_wrapped(page, PAGE_PLAIN, stranger->pid, line, columns);
        page_say(page, columns, "vramgc run %s", stranger->command);
    }
    if (count > 0)
        page_add(page, PAGE_PLAIN, "%s", "");
}

/* ---- all ---- */

static void say_none(struct page *page, const struct top_view *view, int columns) {
    TEXT_OVER(text, line, PAGE_WIDEST);
    if (*view->filter)
        text_format(&text, "No program under vramgc matches \"%s\".", view->filter);
    else
        text_add(&text, view->some_only ? "None of these processes runs under vramgc now."
                                        : "None runs now. `vramgc run COMMAND` starts one.");
    page_add_told(page, line, columns);
    page_add(page, PAGE_PLAIN, "%s", "");
}

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
                page_is_narrow(columns) ? "" : " under vramgc", top_sort_name(view->sort));
    if (view->cards.count > 1 && !page_is_narrow(columns))
        text_add(&text, " on each card");
    if (localtime_r(&now, &tm))
        strftime(right, sizeof right, "%H:%M:%S", &tm);
    page_add_edges(page, PAGE_TITLE, columns, left, right);
    if (!view->low)
        page_add(page, PAGE_PLAIN, "%s", "");
    if (view->running.count == 0)
        say_none(page, view, columns);
    top_cards(page, view, columns);
    write_strangers(page, view, columns);
    top_event_lines(page, view, columns);
    for (size_t i = 0; i < page->count; i++)
        page->lines[i].text[bytes_of_columns(page->lines[i].text, (size_t)columns)] = 0;
}

void top_free(struct top_view *view, struct page *page) {
    cards_free(&view->cards);
    running_free(&view->running);
    free(page->lines);
    *page = (struct page){0};
}
