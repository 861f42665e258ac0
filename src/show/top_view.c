/* top_view.c: see top_view.h. It must not print. */
#include "show/top_view.h"
#include "read/processor.h"
#include "read/program.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

const char *top_sort_name(enum top_sort sort) {
    static const char *const names[TOP_SORTS] = {"held", "live", "idle", "pid"};
    return names[sort];
}

static enum top_sort sort_order; /* for qsort, which passes nothing on */

static uint64_t weight(const struct card_row *row) {
    return sort_order == TOP_BY_HELD   ? row->held_bytes
           : sort_order == TOP_BY_LIVE ? row->live_bytes
           : sort_order == TOP_BY_IDLE ? row->idle_bytes
                                       : UINT64_MAX - row->process->pid;
}

static int heaviest_first(const void *a, const void *b) {
    uint64_t x = weight(a), y = weight(b);
    const struct card_row *row = a, *other = b;
    if (x == y)
        return (row->process->pid > other->process->pid) -
               (row->process->pid < other->process->pid);
    return x > y ? -1 : 1;
}

static int by_number(const void *a, const void *b) {
    const struct card *x = a, *y = b;
    return x->number == y->number  ? strcmp(x->label.bus_id, y->label.bus_id)
           : x->number > y->number ? 1
                                   : -1;
}

static bool is_one_of(uint64_t pid, const uint64_t *pids, size_t pid_count) {
    for (size_t i = 0; i < pid_count; i++)
        if (pids[i] == pid)
            return true;
    return pid_count == 0;
}

/* By its number, and by a word of it, where these are asked for. */
static bool is_wanted(const struct top_view *view, const struct running_process *process,
                      const uint64_t *pids, size_t pid_count) {
    return is_one_of(process->pid, pids, pid_count) &&
           program_has_word(process->record->file, view->filter);
}

void top_refresh(struct top_view *view, const uint64_t *pids, size_t pid_count) {
    view->some_only = pid_count > 0 || *view->filter;
    struct running *running = &view->running;
    cards_free(&view->cards);
    running_free(running);
    *running = running_find();
    processor_note(running);
    size_t kept = 0;
    uint64_t chosen_pid = 0;
    for (size_t i = 0; i < running->count; i++)
        if (is_wanted(view, &running->list[i], pids, pid_count)) {
            chosen_pid = running->list[i].pid == view->chosen_pid ? view->chosen_pid : chosen_pid;
            running->list[kept++] = running->list[i];
        } else {
            stats_file_free(running->list[i].record);
        }
    running->count = kept;
    view->chosen_pid = chosen_pid;
    view->cards = cards_of(running, !view->some_only);
    if (view->cards.count > 0)
        qsort(view->cards.list, view->cards.count, sizeof *view->cards.list, by_number);
    history_note(&view->history, &view->cards);
    sort_order = view->sort;
    for (size_t i = 0; i < view->cards.count; i++)
        qsort(view->cards.list[i].rows, view->cards.list[i].row_count,
              sizeof *view->cards.list[i].rows, heaviest_first);
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
