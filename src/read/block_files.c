/* block_files.c: see block_files.h. Whatever the bytes are, the blocks of a map lie in order within
 * their segments afterwards, and no sum of them overflows. A record may be cut anywhere, or be
 * written while it is read: a word that does not fit what came before it is left out.
 */
#include "read/block_files.h"
#include "vramgc.h"

#include "base/base.h"
#include "base/clean_text.h"
#include "base/hashmap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most that a damaged file may make us allot: ten times as many as the heap is tested with. */
enum { MOST_BLOCKS = 10000000 };

FILE *open_beside(const struct stats_file *record, const char *ending, const char *how) {
    char *path = NULL;
    if (!record->path || asprintf(&path, "%s.%s", record->path, ending) < 0)
        return NULL;
    FILE *stream = fopen(path, how);
    free(path);
    return stream;
}

static FILE *open_map(const struct stats_file *record, size_t device, struct vramgc_map *head) {
    char ending[16];
    snprintf(ending, sizeof ending, "oom%u", (unsigned)device);
    FILE *stream = open_beside(record, ending, "re");
    if (!stream)
        return NULL;
    if (fread(head, sizeof *head, 1, stream) == 1 &&
        memcmp(head->magic, VRAMGC_MAP_MAGIC, sizeof head->magic) == 0 &&
        head->block_bytes == sizeof(struct vramgc_block) && head->device == device &&
        head->pid == record->file->pid && head->started_ns == record->file->started_ns &&
        head->count > 0 && head->count <= MOST_BLOCKS)
        return stream;
    fclose(stream);
    return NULL;
}

static bool is_sound(const struct vramgc_block *blocks, size_t count) {
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_block *b = &blocks[i];
        if (b->address < end || b->bytes > (uint64_t)1 << 60 || b->address > (uint64_t)1 << 60)
            return false;
        end = b->address + b->bytes;
    }
    return true;
}

static struct block_map load_map(const struct stats_file *record, size_t device) {
    struct block_map map = {0};
    FILE *stream = open_map(record, device, &map.head);
    if (!stream)
        return map;
    size_t count = map.head.count;
    map.blocks = calloc(count, sizeof *map.blocks);
    if (map.blocks && (fread(map.blocks, sizeof *map.blocks, count, stream) != count ||
                       !is_sound(map.blocks, count))) {
        free(map.blocks);
        map.blocks = NULL;
    }
    fclose(stream);
    return map;
}

struct block_maps block_maps_load(const struct stats_file *record) {
    struct block_maps maps = {0};
    for (size_t i = 0; i < record->file->device_count; i++)
        maps.of[i] = load_map(record, i);
    return maps;
}

void block_maps_free(struct block_maps *maps) {
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++)
        free(maps->of[i].blocks);
}

bool block_maps_exist(const struct stats_file *record) {
    struct vramgc_map head;
    for (size_t i = 0; i < record->file->device_count; i++) {
        FILE *stream = open_map(record, i, &head);
        if (stream) {
            fclose(stream);
            return true;
        }
    }
    return false;
}

/* ---- the record ---- */

enum { MOST_WORDS = 1 << 26 }; /* that a damaged file may make us read */

struct halves {
    uint64_t *words[2]; /* the older first; NULL: there is none */
    uint64_t counts[2];
    struct vramgc_recording_half first; /* of those that are there */
};

/* How it is read: which blocks are live, by what their words say of their address. */
struct reading {
    struct recording *out;
    struct hashmap live; /* link: its number, bytes, context: 1: given back, and not free yet */
    uint64_t *spare;     /* numbers that are free again */
    uint64_t spares, numbers;
    uint64_t live_now, stream, noted_stream;
    uint64_t jobs;
    bool no_memory;
};

bool recording_exists(const struct stats_file *record) {
    FILE *stream = open_beside(record, "blocks", "re");
    return stream && fclose(stream) == 0;
}

static const char *trouble_with(const struct vramgc_recording *head, size_t got,
                                const struct stats_file *record) {
    if (got != sizeof *head)
        return "is cut short";
    if (memcmp(head->magic, VRAMGC_RECORDING_MAGIC, sizeof head->magic) != 0)
        return "is no record of blocks";
    if (head->head_bytes != sizeof *head || head->half_words > MOST_WORDS || !head->half_words)
        return "is of another version of vramgc";
    if (head->pid != record->file->pid || head->started_ns != record->file->started_ns)
        return "belongs to another run";
    return NULL;
}

/* As many words as are there: fewer where the file is cut. */
static uint64_t *read_half(FILE *stream, const struct vramgc_recording *head, size_t which,
                           uint64_t *count) {
    uint64_t written = min_u64(head->halves[which].written, head->half_words);
    long at = (long)(VRAMGC_RECORDING_HEAD + which * head->half_words * sizeof(uint64_t));
    uint64_t *words = calloc(written + 1, sizeof *words);
    *count = 0;
    if (words && fseek(stream, at, SEEK_SET) == 0)
        *count = fread(words, sizeof *words, written, stream);
    return words;
}

/* The other half is of use where it was written right before this one, and is whole. */
static bool read_halves(FILE *stream, const struct vramgc_recording *head, struct halves *halves) {
    size_t now = head->halves[1].turn > head->halves[0].turn;
    const struct vramgc_recording_half *before = &head->halves[!now];
    bool two = before->turn > 0 && before->turn + 1 == head->halves[now].turn &&
               before->written > head->half_words / 2;
    halves->first = two ? *before : head->halves[now];
    if (two)
        halves->words[0] = read_half(stream, head, !now, &halves->counts[0]);
    halves->words[1] = read_half(stream, head, now, &halves->counts[1]);
    return halves->words[1] && (!two || halves->words[0]);
}

/* ---- words become steps ---- */

static void add_step(struct reading *reading, int64_t value, uint64_t of) {
    struct recording *out = reading->out;
    out->steps[out->count++] = (struct replay_step){value, (int64_t)of};
}

static void take_back(struct reading *reading, uint64_t address) {
    struct hashmap_entry entry;
    if (!hashmap_take(&reading->live, address, &entry))
        return;
    add_step(reading, REPLAY_FREE, entry.link);
    reading->spare[reading->spares++] = entry.link;
    reading->live_now -= entry.context ? 0 : entry.bytes;
}

static void take_back_late(struct reading *reading, uint64_t address) {
    struct hashmap_entry *entry = hashmap_find(&reading->live, address);
    if (!entry || entry->context)
        return;
    entry->context = 1;
    reading->live_now -= entry->bytes;
    add_step(reading, REPLAY_FREE_LATE, entry->link);
}

/* An earlier block under this address is free by now, or its end was not seen. */
static void hand_out_again(struct reading *reading, uint64_t address, uint64_t bytes,
                           uint64_t stream) {
    if (hashmap_find(&reading->live, address))
        take_back(reading, address);
    if (stream != reading->stream)
        add_step(reading, REPLAY_STREAM, reading->stream = stream);
    uint64_t number = reading->spares ? reading->spare[--reading->spares] : reading->numbers++;
    struct hashmap_entry entry = {.key = address, .link = number, .bytes = bytes};
    reading->no_memory = !hashmap_put(&reading->live, &entry, NULL) || reading->no_memory;
    reading->live_now += bytes;
    reading->out->live_bytes = max_u64(reading->out->live_bytes, reading->live_now);
    add_step(reading, (int64_t)bytes, number);
}

static void read_note(struct reading *reading, uint64_t word) {
    switch ((enum vramgc_note)(word >> 2 & 63)) {
    case VRAMGC_NOTE_STREAM:
        reading->noted_stream = word >> 8 & 0xffff;
        break;
    case VRAMGC_NOTE_EMPTIED:
        add_step(reading, REPLAY_EMPTY, 0);
        break;
    case VRAMGC_NOTE_WANTED:
        reading->out->wanted_bytes = word >> 8 & ((1ull << 40) - 1);
        add_step(reading, REPLAY_WANT, reading->out->wanted_bytes);
        break;
    case VRAMGC_NOTE_COMPLETED:
        if (hashmap_find(&reading->live, (word >> 32) + 1))
            take_back(reading, (word >> 32) + 1);
        break;
    case VRAMGC_NOTE_JOB:
        reading->jobs++;
        break;
    case VRAMGC_NOTE_POOL:
    case VRAMGC_NOTE_KEEP:
    case VRAMGC_NOTE_LEFT:
        add_step(reading, -(int64_t)(word >> 2 & 63), word >> 8);
        break;
    default:
        break; /* of a later version */
    }
}

/* A hash map's key may not be 0. */
static void read_block(struct reading *reading, uint64_t word) {
    uint64_t address = (word >> 32) + 1, stream = word >> 2 & 3;
    uint64_t bytes = (word >> 4 & 0xfffffff) * VRAMGC_RECORDING_UNIT;
    reading->out->events += (word & 3) != VRAMGC_WORD_LIVE;
    if ((word & 3) == VRAMGC_WORD_FREE)
        (stream & 1 ? take_back_late : take_back)(reading, address);
    else if (bytes > 0)
        hand_out_again(reading, address, bytes, stream == 3 ? reading->noted_stream : stream);
}

static void read_words(struct reading *reading, const uint64_t *words, uint64_t count, bool first) {
    add_step(reading, REPLAY_POOL, 0);
    for (uint64_t i = 0; i < count; i++) {
        enum vramgc_word kind = words[i] & 3;
        if (kind == VRAMGC_WORD_NOTE)
            read_note(reading, words[i]);
        else if (kind != VRAMGC_WORD_LIVE || first)
            read_block(reading, words[i]);
    }
}

/* A word is three steps at most: of one that was there, a stream, and its own. A half begins with
 * one more. */
static bool read_steps(const struct halves *halves, struct recording *out) {
    uint64_t words = halves->counts[0] + halves->counts[1];
    struct reading reading = {.out = out, .spare = calloc(words + 1, sizeof(uint64_t))};
    out->steps = calloc(3 * words + 2, sizeof *out->steps);
    bool room = reading.spare && out->steps;
    if (room && halves->words[0])
        read_words(&reading, halves->words[0], halves->counts[0], true);
    if (room)
        read_words(&reading, halves->words[1], halves->counts[1], !halves->words[0]);
    out->first_job = halves->first.jobs_before + 1 + (halves->first.events_before > 0);
    out->last_job = halves->first.jobs_before + reading.jobs;
    out->events_lost = halves->first.events_before;
    free(reading.spare);
    return room && !reading.no_memory;
}

bool recording_load(const struct stats_file *record, struct recording *out, char *error,
                    size_t capacity) {
    struct vramgc_recording head = {0};
    struct halves halves = {0};
    FILE *stream = open_beside(record, "blocks", "re");
    *out = (struct recording){0};
    if (!stream) {
        snprintf(error, capacity, "%s has no record of its blocks: `vramgc run --record` makes one",
                 record->path);
        return false;
    }
    const char *trouble = trouble_with(&head, fread(&head, 1, sizeof head, stream), record);
    if (!trouble && !(read_halves(stream, &head, &halves) && read_steps(&halves, out)))
        trouble = "is too large for the memory there is";
    else if (!trouble && out->events == 0)
        trouble = "has no blocks of PyTorch's in it";
    fclose(stream);
    out->other_devices = head.other_devices;
    out->incomplete = head.incomplete;
    out->fraction = head.fraction > 0 && head.fraction < 1 ? head.fraction : 0;
    out->device = head.device < VRAMGC_MAX_DEVICES ? head.device : 0;
    memcpy(out->allocator, head.allocator, sizeof out->allocator - 1);
    free(halves.words[0]);
    free(halves.words[1]);
    if (trouble)
        snprintf(error, capacity, "%s.blocks %s", record->path, trouble);
    if (trouble)
        recording_free(out);
    return !trouble;
}

void recording_free(struct recording *recording) {
    free(recording->steps);
    recording->steps = NULL;
}

/* ---- answers: a line each: 1 (of the run) or 0, bytes, setting ---- */

/* PyTorch's expandable segments, which need no more than a variable, before all else. */
static bool is_better(const struct whatif_answer *answer, const struct whatif_answer *best) {
    bool plain = strcmp(best->setting, "expandable_segments:True") == 0;
    return !best->card_bytes || strcmp(answer->setting, "expandable_segments:True") == 0 ||
           (!plain && answer->card_bytes < best->card_bytes);
}

bool whatif_answers_best(const struct stats_file *record, uint64_t card_bytes,
                         struct whatif_answer *best, uint64_t *left_bytes) {
    const uint64_t margin = 32 << 20; /* as far as answers are from the truth, twice */
    FILE *stream = open_beside(record, "whatif", "re");
    struct whatif_answer answer = {0};
    int of_run;
    bool own_does = false;
    *best = (struct whatif_answer){0};
    while (stream &&
           fscanf(stream, "%d %lu %127[^\n]", &of_run, &answer.card_bytes, answer.setting) == 3) {
        bool does = answer.card_bytes > 0 && answer.card_bytes <= minus_u64(card_bytes, margin);
        own_does = own_does || (of_run && does);
        if (does && is_better(&answer, best))
            *best = answer;
    }
    if (stream)
        fclose(stream);
    clean_text(best->setting, sizeof best->setting);
    *left_bytes = minus_u64(card_bytes, best->card_bytes);
    return best->card_bytes && !own_does;
}
