/* top_view.c: see top_view.h. It must not print. A timeline of a long run has long steps: what top
 * itself has seen counts more, second by second; what was before the programs began is not guessed.
 */
#include "show/top_view.h"
#include "read/derived.h"
#include "read/running.h"
#include "read/stats_file.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- the latest minute ---- */

/* The picture is never lower than this part of a card: a half of a half, and so on. */
enum { MOST_HALVES = 4 };

static uint64_t second_now(void) {
    return clock_ns() / SECOND_NS;
}

/* The count of cards: it was not seen yet. */
static size_t history_index(const struct top_history *history, const char *bus_id) {
    size_t i = 0;
    while (i < history->count && strcmp(history->cards[i].bus_id, bus_id) != 0)
        i++;
    return i;
}

static struct history_card *find_history(struct top_history *history, const char *bus_id) {
    size_t index = history_index(history, bus_id);
    if (index < history->count)
        return &history->cards[index];
    if (history->count == VRAMGC_MAX_DEVICES)
        return NULL;
    struct history_card *card = &history->cards[history->count++];
    *card = (struct history_card){0};
    text_copy(card->bus_id, sizeof card->bus_id, bus_id);
    return card;
}

/* The most that the process had of a device in that time: the point in force when it begins, and
 * those that lie in it. A timeline does not know what libraries had: what they have now. */
static struct history_second highest_between(const struct vramgc_file *file, size_t index,
                                             uint64_t begin_ns, uint64_t end_ns) {
    const struct vramgc_device *device = &file->devices[index];
    struct vramgc_sample all = {.held_low_bytes = UINT64_MAX, .allocated_low_bytes = UINT64_MAX};
    for (uint64_t i = 0; i < device->sample_count; i++) {
        const struct vramgc_sample *sample = &device->samples[i];
        uint64_t from_ns = file->started_ns + sample->time_ns;
        bool last = i + 1 == device->sample_count;
        uint64_t until_ns = last ? UINT64_MAX : file->started_ns + sample[1].time_ns;
        if (from_ns < end_ns && until_ns > begin_ns)
            sample_join(&all, sample);
    }
    uint64_t held = all.held_bytes, live = min_u64(all.allocated_bytes, held);
    uint64_t mean = min_u64(sample_live_mean(&all), live);
    uint64_t libs = min_u64(device->stats.other_bytes.current, held - live);
    return (struct history_second){.tops = {mean, live, held - libs, held, held, held}};
}

/* The programs' parts, by their own timelines. */
static struct history_second programs_in(const struct card *card, uint64_t second) {
    struct history_second sum = {.second = second};
    for (size_t i = 0; i < card->row_count; i++) {
        const struct card_row *row = &card->rows[i];
        struct history_second most = highest_between(row->process->record->file, row->index,
                                                     second * SECOND_NS, (second + 1) * SECOND_NS);
        for (size_t part = 0; part < HISTORY_PARTS; part++)
            sum.tops[part] += most.tops[part];
    }
    return sum;
}

/* The second that goes on, and the one before, of which the end may not have been seen. */
static void raise_second(struct history_second *known, const struct history_second *seen) {
    for (size_t part = 0; part < HISTORY_PARTS; part++)
        known->tops[part] = max_u64(known->tops[part], seen->tops[part]);
    known->busy = known->busy > seen->busy ? known->busy : seen->busy;
}

/* The rest of the card as at a look, until the next one. */
static void add_rest(struct history_second *sum, const struct history_card *of) {
    sum->tops[HISTORY_OTHERS] += of->others_bytes;
    sum->tops[HISTORY_DRIVER] += of->others_bytes + of->driver_bytes;
    sum->busy = of->busy;
}

static void look_at_rest(struct history_card *of, const struct card *card, uint64_t now) {
    of->looked = now;
    of->others_bytes = card->known && !card->named ? card->rest_bytes : 0;
    of->driver_bytes = card->known && card->named ? card->rest_bytes : 0;
    of->busy = card->sensors.known ? card->sensors.busy_percent + 1 : 0;
    for (size_t i = 0; i < card->other_count; i++)
        of->others_bytes += card->others[i].bytes;
}

static void note_card(struct history_card *of, const struct card *card, uint64_t now) {
    uint64_t second = now - min_u64(now, HISTORY_MOST_SECONDS - 1);
    for (; second <= now; second++) {
        struct history_second *known = &of->of[second % HISTORY_MOST_SECONDS];
        bool is_new = known->second != second;
        if (!is_new && second + 1 < now && !of->read_again)
            continue;
        struct history_second seen = programs_in(card, second);
        if (second == now)
            look_at_rest(of, card, now);
        if (second >= of->looked)
            add_rest(&seen, of);
        if (is_new)
            *known = seen;
        else
            raise_second(known, &seen);
    }
    of->read_again = false;
}

/* Other programs' bytes are read from their timelines, and the card's other memory is others'. */
static void history_forget_programs(struct top_history *history) {
    for (size_t i = 0; i < history->count; i++) {
        history->cards[i].read_again = true;
        for (size_t j = 0; j < HISTORY_MOST_SECONDS; j++)
            memset(history->cards[i].of[j].tops, 0, HISTORY_OTHERS * sizeof(uint64_t));
    }
}

static struct history_second highest(const struct history_card *card, size_t column,
                                     struct history_size size) {
    struct history_second most = {0};
    uint64_t first = second_now() + 1 - size.seconds;
    size_t begin = column * size.seconds / size.columns;
    size_t end = (column + 1) * size.seconds / size.columns;
    for (size_t i = begin; i < end; i++) {
        const struct history_second *known = &card->of[(first + i) % HISTORY_MOST_SECONDS];
        if (known->second == first + i)
            raise_second(&most, known);
    }
    return most;
}

/* The lowest row shows whatever programs hold, be it little. */
static char history_letter(struct history_second most, uint64_t middle, bool lowest) {
    static const char letters[] = "#^:+o-";
    uint64_t live = most.tops[HISTORY_LIVE], held = most.tops[HISTORY_LIBS];
    for (size_t part = 0; part < HISTORY_PARTS; part++)
        if (most.tops[part] > middle && (part <= HISTORY_LIBS || !lowest || held == 0))
            return letters[part];
    if (lowest && held > 0)
        return live >= held - live ? '#' : ':';
    return ' ';
}

static const struct history_card *history_of(const struct top_history *history,
                                             const struct card *card) {
    size_t index = history_index(history, card->label.bus_id);
    return index < history->count ? &history->cards[index] : NULL;
}

uint64_t history_top_bytes(const struct top_history *history, const struct card *card) {
    const struct history_card *of = history_of(history, card);
    struct history_second most = {0};
    uint64_t oldest = second_now() + 1 - HISTORY_MOST_SECONDS;
    for (size_t i = 0; of && i < HISTORY_MOST_SECONDS; i++)
        if (of->of[i].second >= oldest)
            raise_second(&most, &of->of[i]);
    uint64_t top = card->total_bytes, highest = most.tops[HISTORY_DRIVER];
    for (int halves = 0; halves < MOST_HALVES && highest <= top / 2; halves++)
        top /= 2;
    return top;
}

static uint64_t middle_of(struct history_size size, size_t row) {
    uint64_t height = size.top_bytes / size.rows;
    return height * (size.rows - 1 - row) + height / 2;
}

bool history_row(const struct top_history *history, const struct card *card, size_t row,
                 struct history_size size, char *out) {
    const struct history_card *of = history_of(history, card);
    if (!of || !card->row_count || !card->total_bytes)
        return false;
    for (size_t i = 0; i < size.columns; i++)
        out[i] = history_letter(highest(of, i, size), middle_of(size, row), row + 1 == size.rows);
    out[size.columns] = 0;
    return true;
}

bool history_busy_row(const struct top_history *history, const struct card *card,
                      struct history_size size, bool blocks, struct text *out) {
    static const char *const heights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const struct history_card *of = history_of(history, card);
    if (!of || !of->busy)
        return false;
    for (size_t i = 0; i < size.columns; i++) {
        int busy = highest(of, i, size).busy, percent = busy > 100 ? 99 : busy - 1;
        if (!busy)
            text_add(out, " ");
        else if (blocks)
            text_add(out, heights[percent * 8 / 100]);
        else
            text_format(out, "%d", percent / 10);
    }
    return true;
}

void history_of_program(const struct vramgc_file *file, size_t index, struct history_size size,
                        char *out) {
    uint64_t step_ns = size.seconds * SECOND_NS / size.columns;
    uint64_t from_ns = minus_u64(clock_ns(), step_ns * size.columns);
    for (size_t i = 0; i < size.columns; i++) {
        uint64_t begin_ns = from_ns + step_ns * i;
        struct history_second most = highest_between(file, index, begin_ns, begin_ns + step_ns);
        for (size_t row = 0; row < size.rows; row++)
            out[row * size.columns + i] =
                history_letter(most, middle_of(size, row), row + 1 == size.rows);
    }
}

/* ---- which programs, in which order ---- */

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
    uint64_t now = second_now();
    for (size_t i = 0; i < view->cards.count; i++) {
        const struct card *card = &view->cards.list[i];
        struct history_card *of = find_history(&view->history, card->label.bus_id);
        if (of)
            note_card(of, card, now);
    }
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
