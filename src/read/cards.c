/* cards.c: see cards.h. Readings are of different moments: what a process says it holds counts,
 * what others have gives way, and free is the rest. No name that NVML tells may steer a terminal.
 */
#include "read/cards.h"
#include "read/stats_file.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/process_stat.h"
#include "base/text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what NVML tells of one ---- */

static struct {
    bool asked;
    struct nvml nvml;
} self;

static const struct nvml *nvml(void) {
    if (!self.asked)
        nvml_open(&self.nvml, dlsym);
    self.asked = true;
    return &self.nvml;
}

static int watts_of(int (*power)(nvml_card, unsigned *), nvml_card card) {
    unsigned milliwatts = 0;
    return power && power(card, &milliwatts) == 0 ? (int)((milliwatts + 500) / 1000) : -1;
}

static struct card_sensors read_sensors(nvml_card card) {
    unsigned percents[2] = {0}, celsius = 0;
    struct card_sensors out = {.busy_percent = -1, .celsius = -1};
    if (nvml()->busy && nvml()->busy(card, percents) == 0)
        out.busy_percent = (int)percents[0];
    if (nvml()->heat && nvml()->heat(card, 0, &celsius) == 0)
        out.celsius = (int)celsius;
    out.watts = watts_of(nvml()->power, card);
    out.most_watts = watts_of(nvml()->most_power, card);
    out.known = out.busy_percent >= 0 || out.celsius >= 0 || out.watts >= 0;
    return out;
}

static void read_memory(const char *bus_id, struct card_reading *reading) {
    struct nvml_memory memory = {0};
    reading->known = nvml_memory(nvml(), nvml_by_bus(nvml(), bus_id), &memory) && memory.total > 0;
    reading->free_bytes = memory.free;
    reading->total_bytes = memory.total;
    reading->used_bytes = minus_u64(memory.total, memory.free);
}

struct card_reading card_read(const char *bus_id) {
    struct card_reading reading = {.users.complete = true};
    nvml_card card = nvml_by_bus(nvml(), bus_id);
    read_memory(bus_id, &reading);
    if (!reading.known)
        return reading;
    reading.sensors = read_sensors(card);
    nvml_users(nvml(), card, &reading.users);
    nvml_add_graphics(nvml(), card, &reading.users);
    nvml_add_busy(nvml(), card, &reading.users);
    return reading;
}

bool card_is_divided(const char *bus_id) {
    return nvml_is_divided(nvml(), nvml_by_bus(nvml(), bus_id));
}

bool card_has_client(const char *bus_id, uint64_t pid) {
    return nvml_has_client(nvml(), nvml_by_bus(nvml(), bus_id), pid);
}

static bool read_label(unsigned number, struct card_label *out) {
    nvml_card card = nvml_by_number(nvml(), number);
    if (!nvml_bus_id(nvml(), card, out->bus_id, sizeof out->bus_id))
        return false;
    if (!nvml_name(nvml(), card, out->name, sizeof out->name))
        text_copy(out->name, sizeof out->name, "GPU");
    clean_text(out->name, sizeof out->name);
    return true;
}

size_t card_labels(struct card_label *out, size_t room) {
    unsigned found = nvml_count(nvml());
    size_t count = 0;
    for (unsigned i = 0; i < found && count < room; i++)
        count += read_label(i, &out[count]);
    return count;
}

/* ---- who has which part of it ---- */

static struct card_row row_of(const struct running_process *process, size_t index) {
    const struct vramgc_device_stats *s = &process->record->file->devices[index].stats;
    struct card_row row = {.process = process, .index = index, .gpu_percent = -1};
    if (process->record->file->parked == 1)
        return row; /* the driver has all of it in the host's memory */
    row.held_bytes = s->held_bytes.current;
    row.code_bytes = min_u64(s->other_bytes.current, row.held_bytes);
    uint64_t live = minus_u64(s->live_bytes.current, s->spilled_bytes.current);
    row.live_bytes = min_u64(live, row.held_bytes - row.code_bytes);
    row.idle_bytes = row.held_bytes - row.code_bytes - row.live_bytes;
    return row;
}

/* Parts of one card (MIG) have its number on the bus, and sizes of their own. */
static bool is_same(const struct card *card, const struct vramgc_device *device, size_t index) {
    return strcmp(card->label.bus_id, device->bus_id) == 0 &&
           strcmp(card->label.name, device->name) == 0 &&
           card->total_bytes == device->total_bytes && (*device->bus_id || card->number == index);
}

/* NULL without memory. */
static struct card *append_card(struct cards *cards, struct card card) {
    struct card *list = realloc(cards->list, (cards->count + 1) * sizeof *list);
    if (!list)
        return NULL;
    cards->list = list;
    list[cards->count] = card;
    return &list[cards->count++];
}

static struct card *find_card(struct cards *cards, const struct vramgc_device *device,
                              size_t index) {
    for (size_t i = 0; i < cards->count; i++)
        if (is_same(&cards->list[i], device, index))
            return &cards->list[i];
    struct card card = {.number = index, .total_bytes = device->total_bytes};
    text_copy(card.label.name, sizeof card.label.name, device->name);
    text_copy(card.label.bus_id, sizeof card.label.bus_id, device->bus_id);
    return append_card(cards, card);
}

static void add_process_card(struct cards *cards, const struct running_process *process,
                             size_t index) {
    const struct vramgc_device *device = &process->record->file->devices[index];
    struct card *card = device->present ? find_card(cards, device, index) : NULL;
    struct card_row *rows = card ? realloc(card->rows, (card->row_count + 1) * sizeof *rows) : NULL;
    if (!rows)
        return;
    card->rows = rows;
    rows[card->row_count++] = row_of(process, index);
    card->number = card->number < index ? card->number : index;
}

static bool fits_card(const struct card *card, uint64_t held) {
    return held <= card->total_bytes && held < UINT64_MAX;
}

/* UINT64_MAX: more than any card has. */
static uint64_t held_by_all(const struct card *card) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < card->row_count; i++)
        bytes += min_u64(card->rows[i].held_bytes, UINT64_MAX - bytes);
    return bytes;
}

/* ---- by what the processes have read themselves ---- */

/* The latest word counts: what others had then was beside what that process held. */
static void divide_by_files(struct card *card, uint64_t held) {
    const struct card_row *latest = NULL;
    for (size_t i = 0; i < card->row_count; i++) {
        const struct card_row *row = &card->rows[i];
        const struct vramgc_file *file = row->process->record->file;
        if (file->devices[row->index].stats.used_bytes.peak > 0 &&
            (!latest || file->latest_ns > latest->process->record->file->latest_ns))
            latest = row;
    }
    card->known = latest && fits_card(card, held);
    if (!card->known)
        return;
    const struct vramgc_device *device = &latest->process->record->file->devices[latest->index];
    uint64_t others = minus_u64(device->stats.others_bytes.current, held - latest->held_bytes);
    card->rest_bytes = min_u64(others, card->total_bytes - held);
    card->free_bytes = card->total_bytes - held - card->rest_bytes;
}

/* ---- by NVML ---- */

static struct card_other other_of(uint64_t pid, uint64_t bytes) {
    struct card_other other = {.pid = pid, .bytes = bytes};
    program_of_process(pid, other.name, sizeof other.name);
    if (!*other.name)
        text_copy(other.name, sizeof other.name, "another program");
    clean_text(other.name, sizeof other.name);
    return other;
}

/* The largest are told, the others together in the last place. */
static void add_other(struct card *card, struct card_other other) {
    for (size_t i = 0; i < card->other_count; i++)
        if (other.bytes > card->others[i].bytes && card->others[i].pid) {
            struct card_other smaller = card->others[i];
            card->others[i] = other;
            other = smaller;
        }
    if (card->other_count < CARD_OTHERS - 1) {
        card->others[card->other_count++] = other;
        return;
    }
    struct card_other *last = &card->others[CARD_OTHERS - 1];
    if (card->other_count < CARD_OTHERS)
        *last = (struct card_other){.name = "others"};
    card->other_count = CARD_OTHERS;
    last->bytes += other.bytes;
}

static struct card_row *row_with(const struct card *card, uint64_t pid) {
    for (size_t i = 0; i < card->row_count; i++)
        if (card->rows[i].process->pid == pid)
            return &card->rows[i];
    return NULL;
}

/* True: NVML numbers processes as we do, which in a container it does not. It knows none that holds
 * nothing. */
static bool knows_all_rows(const struct card *card, const struct card_reading *reading) {
    size_t known = 0, rows = 0;
    for (size_t i = 0; i < reading->users.count; i++)
        known += row_with(card, reading->users.list[i].pid) != NULL;
    for (size_t i = 0; i < card->row_count; i++)
        rows += card->rows[i].held_bytes > 0;
    return known >= rows;
}

static void name_others(struct card *card, const struct card_reading *reading) {
    card->named = reading->users.complete && knows_all_rows(card, reading);
    for (size_t i = 0; card->named && i < reading->users.count; i++) {
        uint64_t bytes = min_u64(reading->users.list[i].bytes, card->rest_bytes);
        if (bytes == 0 || row_with(card, reading->users.list[i].pid))
            continue;
        card->rest_bytes -= bytes;
        add_other(card, other_of(reading->users.list[i].pid, bytes));
    }
}

/* CUDA has a little less of a card than NVML; of a part of it (MIG), much less. */
static bool is_reading_of(const struct card_reading *reading, const struct card *card) {
    return reading->known && card->total_bytes >= reading->total_bytes / 8 * 7 &&
           card->total_bytes <= reading->total_bytes;
}

/* The rows were read before: reads what they hold by now. True: that is the same. */
static bool read_rows_again(struct card *card) {
    bool same = true;
    for (size_t i = 0; i < card->row_count; i++) {
        struct card_row *row = &card->rows[i], before = *row;
        running_read_device(row->process, row->index);
        *row = row_of(row->process, row->index);
        same = same && row->held_bytes == before.held_bytes;
    }
    return same;
}

/* The memory of the card and that of its programs at one moment, as far as that can be had: while a
 * call of the driver's takes or gives memory back the file does not know it yet, or no longer, and
 * what it is about would be the driver's for a moment. So the look counts at which least was
 * nobody's, of those within which no program held more or less. */
static void read_at_once(struct card *card, struct card_reading *reading) {
    enum { LOOKS = 4 };
    if (!card->row_count)
        return;
    struct card_reading best = *reading;
    struct card_row *rows = malloc(card->row_count * sizeof *rows);
    uint64_t least = UINT64_MAX;
    for (int i = 0; rows && reading->known && i < LOOKS; i++) {
        sleep_ns(i > 0 ? MILLISECOND_NS : 0);
        read_rows_again(card);
        read_memory(card->label.bus_id, reading);
        bool same = read_rows_again(card);
        uint64_t held = held_by_all(card);
        if (!same || reading->used_bytes < held || reading->used_bytes - held >= least)
            continue;
        least = reading->used_bytes - held;
        best = *reading;
        memcpy(rows, card->rows, card->row_count * sizeof *rows);
    }
    if (least < UINT64_MAX) {
        *reading = best;
        memcpy(card->rows, rows, card->row_count * sizeof *rows);
    }
    free(rows);
}

static void note_busy(struct card *card, const struct card_reading *reading) {
    for (size_t i = 0; i < reading->users.count; i++) {
        struct card_row *row = row_with(card, reading->users.list[i].pid);
        if (row)
            row->gpu_percent = reading->users.list[i].busy_percent;
    }
}

/* False: it says less than what the processes hold, so it is of another device, or too old. */
static bool divide_by_reading(struct card *card) {
    struct card_reading reading =
        *card->label.bus_id ? card_read(card->label.bus_id) : (struct card_reading){0};
    if (is_reading_of(&reading, card)) {
        card->sensors = reading.sensors;
        read_at_once(card, &reading);
        note_busy(card, &reading);
    }
    uint64_t held = held_by_all(card);
    card->known =
        is_reading_of(&reading, card) && reading.used_bytes >= held && fits_card(card, held);
    if (!card->known)
        return false;
    card->free_bytes = min_u64(reading.free_bytes, card->total_bytes - held);
    card->rest_bytes = card->total_bytes - held - card->free_bytes;
    name_others(card, &reading);
    return true;
}

static bool is_listed(const struct cards *cards, const struct card_label *label) {
    for (size_t i = 0; i < cards->count; i++)
        if (strcasecmp(cards->list[i].label.bus_id, label->bus_id) == 0)
            return true;
    return false;
}

/* Those of which no program has told. */
static void add_unused(struct cards *cards) {
    struct card_label labels[VRAMGC_MAX_DEVICES];
    size_t count = card_labels(labels, VRAMGC_MAX_DEVICES);
    for (size_t i = 0; i < count; i++) {
        struct card_reading reading = card_read(labels[i].bus_id);
        if (reading.known && !is_listed(cards, &labels[i]))
            append_card(
                cards,
                (struct card){.label = labels[i], .number = i, .total_bytes = reading.total_bytes});
    }
}

struct cards cards_of(const struct running *running, bool all) {
    struct cards cards = {0};
    for (size_t i = 0; i < running->count; i++)
        for (size_t j = 0; j < running->list[i].record->file->device_count; j++)
            add_process_card(&cards, &running->list[i], j);
    if (all)
        add_unused(&cards);
    for (size_t i = 0; i < cards.count; i++) {
        struct card *card = &cards.list[i];
        if (!divide_by_reading(card))
            divide_by_files(card, held_by_all(card));
    }
    return cards;
}

static void hide_row(struct card *card, const struct card_row *row) {
    struct card_other other = {.pid = row->process->pid, .bytes = row->held_bytes};
    struct text name = TEXT_IN(other.name);
    program_name(row->process->record->file, &name);
    if (other.bytes > 0)
        add_other(card, other);
}

void cards_hide(struct cards *cards, const struct running_process *from) {
    for (size_t i = 0; i < cards->count; i++) {
        struct card *card = &cards->list[i];
        size_t kept = 0;
        for (size_t j = 0; j < card->row_count; j++)
            if (card->rows[j].process < from)
                card->rows[kept++] = card->rows[j];
            else
                hide_row(card, &card->rows[j]);
        card->row_count = kept;
    }
}

void cards_free(struct cards *cards) {
    for (size_t i = 0; i < cards->count; i++)
        free(cards->list[i].rows);
    free(cards->list);
    *cards = (struct cards){0};
}
