/* top_details.c: see top_details.h. A web UI that waits for its user does nothing, as one that
 * hangs: it must not call that a hang. */
#include "show/top_details.h"
#include "show/summary.h"
#include "show/device_table.h"
#include "judge/tally.h"
#include "judge/verdict.h"
#include "judge/who.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"
#include "base/process_stat.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_OWNERS = 4, PICTURE_ROWS = 3 };

static int details_indent(int columns) {
    return page_is_narrow(columns) ? 2 : 11;
}

static struct figure show_seconds(uint64_t ns) {
    return show_time(ns / SECOND_NS * SECOND_NS);
}

/* ---- whose its live memory is ---- */

struct owner {
    const struct vramgc_site *site; /* NULL: all others */
    uint64_t now_bytes, peak_bytes;
};

enum { MOST_OWNERS = VRAMGC_WHO_OWNERS + VRAMGC_MAX_OWNERS };

static struct owner *owner_of_site(struct owner *list, size_t count,
                                   const struct vramgc_site *site) {
    for (size_t i = 0; i < count; i++)
        if (list[i].site == site)
            return &list[i];
    return NULL;
}

/* Who has most by now, then who had most at the peak: these always, so that the table does not come
 * and go with what the program does. */
static size_t list_owners(const struct vramgc_file *file, const struct vramgc_device *device,
                          const struct vramgc_who *who, struct owner list[MOST_OWNERS]) {
    const struct vramgc_owners *peak = &device->owners_at_peak;
    size_t count = 0;
    for (uint32_t i = 0; i < who->count; i++)
        list[count++] = (struct owner){&file->sites[who->sites[i]], who_bytes(who, i), 0};
    for (uint64_t i = 0; i < peak->count; i++) {
        const struct vramgc_site *site = &file->sites[peak->list[i].site];
        struct owner *known = owner_of_site(list, count, site);
        if (known)
            known->peak_bytes = peak->list[i].bytes;
        else
            list[count++] = (struct owner){site, 0, peak->list[i].bytes};
    }
    return count;
}

static void top_owner(struct page *page, const struct owner *owner, int columns) {
    struct page_line *line = page_add_line(page, PAGE_PLAIN);
    struct text text = TEXT_IN(line->text);
    const char *phase = owner->site ? owner->site->phase : "";
    text_format(&text, "%*s%9s ", details_indent(columns), "",
                owner->now_bytes ? show_bytes(owner->now_bytes).text : "-");
    if (!page_is_narrow(columns))
        text_format(&text, "%10s ", owner->peak_bytes ? show_bytes(owner->peak_bytes).text : "-");
    size_t taken = text.length + (*phase ? strlen(phase) + 2 : 0);
    text_format(&text, " %s%s%s", phase, *phase ? ": " : "",
                summary_who_name(owner->site, minus_u64((uint64_t)columns - 1, taken)).text);
}

/* Of the latest look that is in the file: a run of many hours has one in a few minutes. */
static void top_owners(struct page *page, const struct card_row *row, int columns) {
    const struct vramgc_file *file = row->process->record->file;
    const struct vramgc_device *device = &file->devices[row->index];
    const struct vramgc_who *who = &device->who[minus_u64(device->who_count, 1)];
    struct owner list[MOST_OWNERS];
    struct owner rest = {NULL, who->live_bytes, device->owners_at_peak.live_bytes};
    size_t count = device->who_count ? list_owners(file, device, who, list) : 0;
    if (count == 0)
        return;
    uint64_t seconds = minus_u64(clock_ns(), file->started_ns + who->time_ns) / SECOND_NS;
    if (page_is_narrow(columns))
        page_add(page, PAGE_HEADING, "%11s  WHOSE LIVE MEMORY", "LATELY");
    else
        page_add(page, PAGE_HEADING, "%20s %10s  WHOSE LIVE MEMORY (lately: within %s)", "LATELY",
                 "AT PEAK", show_time(max_u64(seconds, 1) * SECOND_NS).text);
    for (size_t i = 0; i < count && i < SHOWN_OWNERS; i++) {
        top_owner(page, &list[i], columns);
        rest.now_bytes = minus_u64(rest.now_bytes, list[i].now_bytes);
        rest.peak_bytes = minus_u64(rest.peak_bytes, list[i].peak_bytes);
    }
    if (rest.now_bytes > 0 || rest.peak_bytes > 0)
        top_owner(page, &rest, columns);
}

/* ---- its whole run, or the latest part of it ---- */

static void write_picture(struct page *page, const struct top_view *view,
                          const struct card_row *row, int columns) {
    enum { LABEL = 12 };
    const struct vramgc_file *file = row->process->record->file;
    uint64_t top_bytes = file->devices[row->index].stats.held_bytes.peak;
    uint64_t age_ns = minus_u64(clock_ns(), file->started_ns);
    uint64_t seconds = max_u64((age_ns / SECOND_NS + 1) >> view->halvings, 1);
    struct figure name = show_seconds(view->halvings ? seconds * SECOND_NS : age_ns);
    struct history_size size = {PICTURE_ROWS, .seconds = seconds, .top_bytes = top_bytes};
    char picture[PICTURE_ROWS * PAGE_WIDEST];
    size.columns = (size_t)(columns - details_indent(columns) - LABEL);
    history_of_program(file, row->index, size, picture);
    for (size_t i = 0; i < size.rows && top_bytes > 0; i++) {
        struct page_line *line = page_add_line(page, PAGE_PLAIN);
        struct text text = TEXT_IN(line->text);
        text_format(&text, "%*s|%.*s| %s", details_indent(columns), "", (int)size.columns,
                    picture + i * size.columns,
                    i == 0               ? show_bytes(top_bytes).text
                    : i + 1 == size.rows ? name.text
                    : view->halvings     ? "the last"
                                         : "");
        line->bar_begin = (size_t)details_indent(columns) + 1;
    }
}

/* ---- beside its figures, a line each ---- */

/* Idle memory is worth a word when it has stayed as long as the picture is wide. One kernel that
 * takes longer than the other is rare; vramgc's own thread looks twice a second (SLOWEST_STEP_NS),
 * and is stuck when it has not for so long. */
#define IDLE_NS   (60 * SECOND_NS)
#define BUSY_NS   (120 * SECOND_NS)
#define SILENT_NS (10 * SECOND_NS)
enum { BUSY_PERCENT = 90 };

/* A little is swapped out of any program in time. */
#define LEAST_SWAP (256 * MEBIBYTE)

/* Since when no block was taken or freed; 0: not known. */
static uint64_t rested_ns(const struct vramgc_file *file) {
    uint64_t worked_ns = 0;
    for (size_t i = 0; i < file->device_count; i++)
        worked_ns = max_u64(worked_ns, file->devices[i].worked_ns);
    return worked_ns ? minus_u64(clock_ns(), file->started_ns + worked_ns) : 0;
}

/* Where it last took memory, and since when it rests; nothing where that is not known. */
static void say_usual(struct text *text, const struct vramgc_file *file) {
    const struct vramgc_host_look *look = &file->host.latest;
    if (file->parked == 1)
        return;
    if (look->time_ns && look->swap_bytes >= LEAST_SWAP)
        text_format(text, "%s of its RAM swapped out", show_bytes(look->swap_bytes).text);
    if (!file->latest_site)
        return;
    uint64_t rest_ns = rested_ns(file);
    const struct vramgc_site *site = &file->sites[file->latest_site - 1];
    text_add(text, text->length ? "; " : "");
    if (rest_ns >= SECOND_NS)
        text_format(text, "at rest for %s; ", show_seconds(rest_ns).text);
    text_format(text, "last took memory in %s%s%s", site->phase, *site->phase ? ": " : "",
                who_short_name(site).text);
}

static void say_idle(struct page *page, int columns, const struct running_process *process,
                     const struct cards *cards, uint64_t rest_ns) {
    uint64_t idle = 0;
    for (size_t i = 0; i < cards->count; i++)
        for (size_t j = 0; j < cards->list[i].row_count; j++)
            if (cards->list[i].rows[j].process == process)
                idle += cards->list[i].rows[j].idle_bytes;
    if (rest_ns >= IDLE_NS && idle >= VERDICT_IDLE_BYTES)
        page_say(page, columns, "%s idle for %s%s", show_bytes(idle).text,
                 show_seconds(rest_ns).text,
                 stats_file_setting_is(process->record, "lowvram", "0")
                     ? "; `vramgc run --lowvram` would give it back"
                     : "");
}

/* How much others gave, and how much is left to them. */
static void say_sharing(struct page *page, int columns, const struct vramgc_file *file) {
    TEXT_OVER(limits, words, 200);
    if (shared_card_say_limits(&limits, &file->limits))
        page_say(page, columns, "%s", words);
    struct text giver = TEXT_IN(words);
    if (shared_card_say_giver(&giver, file))
        page_say(page, columns, "%s", words);
}

/* One program alone on the card is what keeps it busy. */
static bool keeps_busy(const struct running_process *process, const struct cards *cards) {
    bool busy = false;
    for (size_t i = 0; i < cards->count; i++) {
        const struct card *card = &cards->list[i];
        busy = busy || (card->row_count == 1 && card->other_count == 0 &&
                        card->rows[0].process == process && card->sensors.known &&
                        card->sensors.busy_percent >= BUSY_PERCENT);
    }
    return busy;
}

static void say_hang(struct page *page, int columns, const struct running_process *process,
                     const struct cards *cards, uint64_t rest_ns) {
    const struct vramgc_file *file = process->record->file;
    bool looks = file->latest_ns != file->started_ns; /* else no thread of ours could be started */
    uint64_t silent_ns = looks ? minus_u64(clock_ns(), file->latest_ns) : 0;
    if (process_stat(process->pid).state == 'T')
        page_say(page, columns, "is stopped, and keeps its memory: `kill -CONT %lu` lets it go on",
                 process->pid);
    else if (silent_ns >= SILENT_NS)
        page_say(page, columns, "gives no sign for %s: stuck in the driver, or a busy machine",
                 show_seconds(silent_ns).text);
    else if (rest_ns >= BUSY_NS && keeps_busy(process, cards))
        page_say(page, columns, "keeps the card busy, and made no tensor for %s: it may hang",
                 show_seconds(rest_ns).text);
}

/* In a container its numbers are others. */
static bool is_gone(const struct running_process *process, uint64_t key) {
    return key && process->pid == process->record->file->pid && !process_key_lives(key);
}

static void say_parked(struct page *page, int columns, const struct running_process *process) {
    const struct vramgc_file *file = process->record->file;
    struct figure in_ram = show_bytes(ON_ALL_CARDS(file, held_bytes.current));
    bool alone = is_gone(process, file->parker), parked = file->parked == 1;
    page_say(page, columns, "%s%s%s%s`vramgc wake %lu`%s",
             parked ? "parked, with " : "who parked or woke it was killed meanwhile",
             parked ? in_ram.text : "", parked ? " in RAM; " : "; ",
             alone ? "nobody wakes it: " : "", process->pid, alone ? "" : " brings it back");
}

/* Lines that are not always there. */
static void write_hints(struct page *page, int columns, const struct running_process *process,
                        const struct cards *cards) {
    const struct vramgc_file *file = process->record->file;
    uint64_t rest_ns = rested_ns(file);
    if (file->parked == 1 || is_gone(process, file->parked)) {
        say_parked(page, columns, process);
        return;
    }
    say_idle(page, columns, process, cards, rest_ns);
    say_hang(page, columns, process, cards, rest_ns);
    say_sharing(page, columns, file);
}

/* ---- in words ---- */

static void write_totals(struct page *page, const struct vramgc_file *file, int columns) {
    uint64_t reclaims = ON_ALL_CARDS(file, reclaims),
             reclaimed = ON_ALL_CARDS(file, reclaimed_bytes);
    char gave[100] = "gave nothing back yet";
    if (reclaimed > 0)
        snprintf(gave, sizeof gave, "gave back %s, %s time%s", show_bytes(reclaimed).text,
                 show_count(reclaims).text, reclaims == 1 ? "" : "s");
    page_say(page, columns, "%s; refused: %s; out of memory: %s", gave,
             show_count(ON_ALL_CARDS(file, refusals)).text,
             show_count(ON_ALL_CARDS(file, ooms)).text);
}

static void write_ram(struct page *page, const struct vramgc_file *file, int columns) {
    const struct vramgc_host_look *look = &file->host.latest;
    const struct vramgc_process_stats *process = &file->process;
    if (look->time_ns)
        page_say(page, columns, "RAM %s, %s swapped out; gave back %s",
                 show_bytes(ram_bytes(look)).text, show_bytes(look->swap_bytes).text,
                 show_bytes(process->host_released_bytes + process->pinned_released_bytes).text);
}

/* So many lines whatever it does: else those below would jump. */
static void write_usual(struct page *page, const struct top_view *view, const struct card_row *row,
                        int columns) {
    TEXT_OVER(text, words, 200);
    say_usual(&text, row->process->record->file);
    if (view->whole)
        page_say(page, columns, "%s", words);
    else if (*words && !view->low)
        page_add_cut(page, words, columns);
}

/* The most useful lines first: a terminal has 24. */
static void write_chosen(struct page *page, const struct top_view *view, const struct card_row *row,
                         int columns) {
    const struct stats_file *record = row->process->record;
    uint64_t age_ns = minus_u64(clock_ns(), record->file->started_ns);
    page_add_wrapped(page, PAGE_TITLE, 0, record->file->command_line, columns);
    write_usual(page, view, row, columns);
    top_owners(page, row, columns);
    if (!view->low)
        write_picture(page, view, row, columns);
    page_say(page, columns, "mode %s; peak %s; has used CUDA for %s", record->file->mode,
             show_bytes(to_u64(stats_file_held_peak(record))).text, show_time(age_ns).text);
    write_totals(page, record->file, columns);
    write_ram(page, record->file, columns);
    page_say(page, columns, "vramgc report %s", record->path);
}

void top_details(struct page *page, const struct top_view *view, const struct card_row *row,
                 int columns) {
    if (row->process->pid == view->chosen_pid)
        write_chosen(page, view, row, columns);
    else
        write_usual(page, view, row, columns);
    write_hints(page, columns, row->process, &view->cards);
}
