/* top_history.c: see top_history.h. A timeline of a long run has long steps: what top itself has
 * seen counts more, second by second. It must not guess what was before the programs began. */
#include "show/top_history.h"
#include "base/base.h"
#include "base/text.h"

#include <string.h>

/* The picture is never lower than this part of a card: a half of a half, and so on. */
enum { MOST_HALVES = 4 };

static uint64_t second_now(void) {
    return clock_ns() / SECOND_NS;
}

static struct history_card *find(struct top_history *history, const char *bus_id) {
    for (size_t i = 0; i < history->count; i++)
        if (strcmp(history->cards[i].bus_id, bus_id) == 0)
            return &history->cards[i];
    if (history->count == VRAMGC_MAX_DEVICES)
        return NULL;
    struct history_card *card = &history->cards[history->count++];
    *card = (struct history_card){0};
    text_copy(card->bus_id, sizeof card->bus_id, bus_id);
    return card;
}

/* What the process had of a device at most in that time: the point in force when it begins, and
 * those that lie in it. */
static struct history_second highest_between(const struct vramgc_file *file, size_t index,
                                             uint64_t begin_ns, uint64_t end_ns) {
    const struct vramgc_device *device = &file->devices[index];
    struct history_second most = {0};
    for (uint64_t i = 0; i < device->sample_count; i++) {
        const struct vramgc_sample *sample = &device->samples[i];
        uint64_t from_ns = file->started_ns + sample->time_ns;
        bool last = i + 1 == device->sample_count;
        uint64_t until_ns = last ? UINT64_MAX : file->started_ns + sample[1].time_ns;
        if (from_ns < end_ns && until_ns > begin_ns) {
            most.live_bytes = max_u64(most.live_bytes, sample->allocated_bytes);
            most.held_bytes = max_u64(most.held_bytes, sample->held_bytes);
        }
    }
    most.live_bytes = min_u64(most.live_bytes, most.held_bytes);
    return most;
}

/* Others are taken to hold what they hold now. */
static struct history_second second_of(const struct card *card, uint64_t second) {
    struct history_second sum = {.second = second};
    uint64_t held_now = 0;
    for (size_t i = 0; i < card->row_count; i++) {
        const struct card_row *row = &card->rows[i];
        struct history_second most = highest_between(row->process->record->file, row->index,
                                                     second * SECOND_NS, (second + 1) * SECOND_NS);
        sum.live_bytes += most.live_bytes;
        sum.held_bytes += most.held_bytes;
        held_now += card->rows[i].held_bytes;
    }
    if (card->known)
        sum.used_bytes = sum.held_bytes + minus_u64(card->total_bytes - card->free_bytes, held_now);
    return sum;
}

/* The second that goes on, and the one before, of which the end may not have been seen. */
static void raise_second(struct history_second *known, const struct history_second *seen) {
    known->live_bytes = max_u64(known->live_bytes, seen->live_bytes);
    known->held_bytes = max_u64(known->held_bytes, seen->held_bytes);
    known->used_bytes = max_u64(known->used_bytes, seen->used_bytes);
}

void history_note(struct top_history *history, const struct cards *cards) {
    uint64_t now = second_now();
    for (size_t i = 0; i < cards->count; i++) {
        const struct card *card = &cards->list[i];
        struct history_card *of = find(history, card->label.bus_id);
        for (uint64_t second = now - min_u64(now, HISTORY_MOST_SECONDS - 1); of && second <= now;
             second++) {
            struct history_second *known = &of->of[second % HISTORY_MOST_SECONDS];
            bool is_new = known->second != second;
            struct history_second seen = {0};
            if (is_new || second + 1 >= now)
                seen = second_of(card, second);
            if (is_new)
                *known = seen;
            else
                raise_second(known, &seen);
        }
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
static char letter_of(struct history_second most, uint64_t middle, bool lowest) {
    if (most.live_bytes > middle)
        return '#';
    if (most.held_bytes > middle)
        return ':';
    if (lowest && most.held_bytes > 0)
        return most.live_bytes >= most.held_bytes - most.live_bytes ? '#' : ':';
    return most.used_bytes > middle ? 'o' : ' ';
}

static const struct history_card *card_of(const struct top_history *history,
                                          const struct card *card) {
    for (size_t i = 0; i < history->count; i++)
        if (strcmp(history->cards[i].bus_id, card->label.bus_id) == 0)
            return &history->cards[i];
    return NULL;
}

uint64_t history_top_bytes(const struct top_history *history, const struct card *card) {
    const struct history_card *of = card_of(history, card);
    struct history_second most = {0};
    uint64_t oldest = second_now() + 1 - HISTORY_MOST_SECONDS;
    for (size_t i = 0; of && i < HISTORY_MOST_SECONDS; i++)
        if (of->of[i].second >= oldest)
            raise_second(&most, &of->of[i]);
    uint64_t top = card->total_bytes, highest = max_u64(most.held_bytes, most.used_bytes);
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
    const struct history_card *of = card_of(history, card);
    if (!of || !card->row_count || !card->total_bytes)
        return false;
    for (size_t i = 0; i < size.columns; i++)
        out[i] = letter_of(highest(of, i, size), middle_of(size, row), row + 1 == size.rows);
    out[size.columns] = 0;
    return true;
}

void history_of_program(const struct vramgc_file *file, size_t index, struct history_size size,
                        char *out) {
    uint64_t step_ns = minus_u64(clock_ns(), file->started_ns) / size.columns;
    for (size_t i = 0; i < size.columns; i++) {
        uint64_t begin_ns = file->started_ns + step_ns * i;
        struct history_second most = highest_between(file, index, begin_ns, begin_ns + step_ns);
        for (size_t row = 0; row < size.rows; row++)
            out[row * size.columns + i] =
                letter_of(most, middle_of(size, row), row + 1 == size.rows);
    }
}
