/* parked.c: see parked.h. It must take no note for true that another life of the number left. */
#include "cli/parked.h"

#include "base/file.h"
#include "base/peer_file.h"
#include "base/state_folder.h"
#include "base/text.h"
#include "read/cards.h"
#include "read/running.h"
#include "read/stats_file.h"
#include "read/units.h"

#include <stdio.h>
#include <string.h>

struct parked parked_look(uint64_t pid) {
    struct parked parked = {.pid = pid, .process_start = process_start_ticks(pid)};
    struct card_label labels[PARKED_CARDS];
    size_t cards = card_labels(labels, PARKED_CARDS);
    for (size_t i = 0; i < cards; i++) {
        struct card_reading reading = card_read(labels[i].bus_id);
        for (size_t k = 0; reading.known && k < reading.users.count; k++) {
            if (reading.users.list[k].pid != pid)
                continue;
            text_copy(parked.cards[parked.count].bus_id, sizeof parked.cards->bus_id,
                      labels[i].bus_id);
            parked.cards[parked.count++].bytes = reading.users.list[k].bytes;
            break;
        }
    }
    return parked;
}

uint64_t parked_bytes(const struct parked *parked) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < parked->count; i++)
        bytes += parked->cards[i].bytes;
    return bytes;
}

static bool has_managed_memory(uint64_t pid) {
    struct stats_file *record = running_with_mapping(pid);
    uint64_t bytes = 0;
    for (size_t i = 0; record && i < record->file->device_count; i++)
        bytes += record->file->devices[i].stats.managed_bytes.current;
    if (record)
        stats_file_free(record);
    return bytes > 0;
}

/* Of the programs on a divided card NVML tells root only. */
const char *parked_obstacle(const struct parked *parked) {
    struct card_label labels[PARKED_CARDS];
    size_t cards = card_labels(labels, PARKED_CARDS);
    bool divided = parked->count == 0 && cards == 1 && card_is_divided(labels[0].bus_id);
    bool client = false;
    for (size_t i = 0; i < parked->count; i++)
        divided = divided || card_is_divided(parked->cards[i].bus_id);
    for (size_t i = 0; i < cards; i++)
        client = client || card_has_client(labels[i].bus_id, parked->pid);
    return divided                           ? "its card is divided (MIG)"
           : client                          ? "it has its card through MPS"
           : has_managed_memory(parked->pid) ? "it has managed memory (cudaMallocManaged)"
                                             : NULL;
}

static bool path_of(uint64_t pid, char *path, size_t capacity) {
    char folder[4096];
    if (!state_folder(folder, sizeof folder) || !state_folder_make(folder) ||
        !state_folder_is_trusted(folder))
        return false;
    return snprintf(path, capacity, "%s/parked.%llu", folder, (unsigned long long)pid) <
           (int)capacity;
}

bool parked_write(const struct parked *parked) {
    char path[4200];
    if (!path_of(parked->pid, path, sizeof path))
        return false;
    unlink(path);
    int fd = file_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        return false;
    fprintf(file, "%llu\n", (unsigned long long)parked->process_start);
    for (size_t i = 0; i < parked->count; i++)
        fprintf(file, "%s %llu\n", parked->cards[i].bus_id,
                (unsigned long long)parked->cards[i].bytes);
    return fclose(file) == 0;
}

bool parked_read(uint64_t pid, struct parked *out) {
    char path[4200];
    unsigned long long start = 0, bytes = 0;
    FILE *file = path_of(pid, path, sizeof path) ? fopen(path, "re") : NULL;
    *out = (struct parked){.pid = pid};
    if (!file)
        return false;
    if (fscanf(file, "%llu", &start) == 1)
        out->process_start = start;
    while (out->count < PARKED_CARDS &&
           fscanf(file, "%15s %llu", out->cards[out->count].bus_id, &bytes) == 2)
        out->cards[out->count++].bytes = bytes;
    fclose(file);
    return out->count > 0 && process_lives(pid, out->process_start);
}

void parked_forget(uint64_t pid) {
    char path[4200];
    if (path_of(pid, path, sizeof path))
        unlink(path);
}

bool parked_fits(const struct parked *parked, char *why, size_t capacity) {
    for (size_t i = 0; i < parked->count; i++) {
        struct card_reading reading = card_read(parked->cards[i].bus_id);
        if (reading.known && reading.free_bytes >= parked->cards[i].bytes)
            continue;
        snprintf(why, capacity, "it needs %s of card %s, which has %s free",
                 show_bytes(parked->cards[i].bytes).text, parked->cards[i].bus_id,
                 show_bytes(reading.free_bytes).text);
        return false;
    }
    return true;
}

void parked_ask(const struct parked *parked) {
    for (size_t i = 0; i < parked->count; i++) {
        struct card_reading reading = card_read(parked->cards[i].bus_id);
        struct peer_ask ask = {
            .card = peer_file_card(parked->cards[i].bus_id),
            .asker = parked->pid,
            .waits = true,
            .end_ns = clock_ns() + PEER_PATIENCE_NS,
            .lacking_bytes = (int64_t)parked->cards[i].bytes - (int64_t)reading.free_bytes,
        };
        uint64_t could_give = peer_idle_bytes(&ask) + peer_parkable_bytes(&ask);
        if (!reading.known || ask.lacking_bytes <= 0 || (int64_t)could_give < ask.lacking_bytes)
            continue;
        peer_ask_idle(&ask);
        if (ask.lacking_bytes > 0)
            peer_ask_turn(&ask);
    }
}
