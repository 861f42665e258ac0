/* top_view.c: see top_view.h. It must not print. */
#include "show/top_view.h"
#include "read/running.h"
#include "read/stats_file.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

const char *top_sort_name(enum top_sort sort) {
    static const char *const names[TOP_SORTS] = {"held", "live", "idle", "pid"};
    return names[sort];
}

static enum top_sort sort_order; /* for qsort, which passes nothing on */

static uint64_t sort_weight(const struct card_row *row) {
    return sort_order == TOP_BY_HELD   ? row->held_bytes
           : sort_order == TOP_BY_LIVE ? row->live_bytes
           : sort_order == TOP_BY_IDLE ? row->idle_bytes
                                       : UINT64_MAX - row->process->pid;
}

static int heaviest_first(const void *a, const void *b) {
    uint64_t x = sort_weight(a), y = sort_weight(b);
    const struct card_row *row = a, *other = b;
    if (x == y)
        return (row->process->pid > other->process->pid) -
               (row->process->pid < other->process->pid);
    return x > y ? -1 : 1;
}

/* Parts of a card (MIG) differ in size or name only: they, too, stay where they are. */
static int by_number(const void *a, const void *b) {
    const struct card *x = a, *y = b;
    int bus = strcmp(x->label.bus_id, y->label.bus_id);
    if (x->number != y->number)
        return x->number > y->number ? 1 : -1;
    if (bus)
        return bus;
    if (x->total_bytes != y->total_bytes)
        return x->total_bytes > y->total_bytes ? -1 : 1;
    return strcmp(x->label.name, y->label.name);
}

static bool is_one_of(uint64_t pid, const uint64_t *pids, size_t pid_count) {
    for (size_t i = 0; i < pid_count; i++)
        if (pids[i] == pid)
            return true;
    return pid_count == 0;
}

static void keep_numbers(struct running *running, const uint64_t *pids, size_t pid_count) {
    size_t kept = 0;
    for (size_t i = 0; i < running->count; i++)
        if (is_one_of(running->list[i].pid, pids, pid_count))
            running->list[kept++] = running->list[i];
        else
            stats_file_free(running->list[i].record);
    running->count = kept;
}

/* Those with the word come first, as they were. How many they are. */
static size_t sort_by_word(struct running *running, const char *word) {
    size_t kept = 0;
    for (size_t i = 0; i < running->count; i++)
        if (program_has_word(running->list[i].record->file, word)) {
            struct running_process process = running->list[i];
            running->list[i] = running->list[kept];
            running->list[kept++] = process;
        }
    return kept;
}

/* The cards stay, with the programs that have no such word as others. */
static void keep_word(struct top_view *view) {
    struct running *running = &view->running;
    size_t kept = sort_by_word(running, view->filter);
    view->cards = cards_of(running, view->all_cards);
    cards_hide(&view->cards, running->list + kept);
    while (running->count > kept)
        stats_file_free(running->list[--running->count].record);
}

static void keep_choice(struct top_view *view) {
    bool runs = false;
    for (size_t i = 0; i < view->running.count; i++)
        runs = runs || view->running.list[i].pid == view->chosen_pid;
    view->chosen_pid = runs ? view->chosen_pid : 0;
}

/* With another word to look for, other programs are seen. */
static void note_history(struct top_view *view) {
    if (strcmp(view->history_filter, view->filter) != 0)
        history_forget_programs(&view->history);
    text_copy(view->history_filter, sizeof view->history_filter, view->filter);
    history_note(&view->history, &view->cards);
}

void top_refresh(struct top_view *view, const uint64_t *pids, size_t pid_count) {
    view->all_cards = pid_count == 0;
    view->some_only = pid_count > 0 || *view->filter;
    struct running *running = &view->running;
    cards_free(&view->cards);
    running_free(running);
    *running = running_find();
    running_note_load(running);
    keep_numbers(running, pids, pid_count);
    keep_word(view);
    keep_choice(view);
    if (view->cards.count > 0)
        qsort(view->cards.list, view->cards.count, sizeof *view->cards.list, by_number);
    note_history(view);
    sort_order = view->sort;
    for (size_t i = 0; i < view->cards.count; i++)
        qsort(view->cards.list[i].rows, view->cards.list[i].row_count,
              sizeof *view->cards.list[i].rows, heaviest_first);
}

bool top_found(const struct top_view *view) {
    bool found = false;
    for (size_t i = 0; i < view->cards.count; i++)
        found = found || view->cards.list[i].row_count > 0;
    return found && *view->filter;
}

void top_choose(struct top_view *view, int step) {
    uint64_t before = 0, first = 0, last = 0;
    bool next = false;
    for (size_t i = 0; i < view->cards.count; i++)
        for (size_t j = 0; j < view->cards.list[i].row_count; j++) {
            uint64_t pid = view->cards.list[i].rows[j].process->pid;
            if (pid == last)
                continue; /* the same on its next card */
            if (next) {
                view->chosen_pid = pid;
                return;
            }
            first = first ? first : pid;
            before = pid == view->chosen_pid ? last : before;
            next = step > 0 && pid == view->chosen_pid;
            last = pid;
        }
    if (step > 0 && !next)
        view->chosen_pid = first;
    else if (step < 0)
        view->chosen_pid = before ? before : view->chosen_pid ? view->chosen_pid : last;
}
