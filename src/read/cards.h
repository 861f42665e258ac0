/* cards.h: who has the memory of each card, of all programs under vramgc and of the others: parts
 * that add up to the card; and what the driver's management library (NVML) says of one now. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/running.h"
#include "base/nvml.h"

/* Of the whole card; -1: not known. */
struct card_sensors {
    bool known; /* any of them; else the others say nothing */
    int busy_percent, celsius, watts, most_watts;
};

struct card_label {
    char name[64];
    char bus_id[16]; /* as CUDA writes it: 0000:01:00.0 */
};

struct card_reading {
    bool known; /* false: no NVML, or it does not know the card */
    uint64_t free_bytes, used_bytes, total_bytes;
    struct card_sensors sensors;
    struct nvml_users users;
};

/* The library is loaded at the first call, and stays. */
struct card_reading card_read(const char *bus_id);

bool card_is_divided(const char *bus_id);               /* MIG */
bool card_has_client(const char *bus_id, uint64_t pid); /* of MPS */

/* The machine's cards, used or not; how many there are, room at most. */
size_t card_labels(struct card_label *out, size_t room);

/* A process on a card: held is live, idle and code together. */
struct card_row {
    const struct running_process *process;
    size_t index; /* of the card as the process numbers it */
    uint64_t live_bytes, idle_bytes;
    uint64_t code_bytes; /* of callers other than PyTorch's allocator */
    uint64_t held_bytes;
    int gpu_percent; /* of the card's time; -1: not known */
};

struct card_other {
    uint64_t pid; /* 0: several */
    uint64_t bytes;
    char name[64];
};

enum { CARD_OTHERS = 4 }; /* the largest; a screen has 24 lines */

struct card {
    struct card_label label; /* as one of the processes knows it, or NVML */
    size_t number;           /* lowest by which a process knows it */
    struct card_row *rows;
    size_t row_count;
    bool known; /* false: how much is free was never read; then only the rows are valid */
    bool named; /* other processes are told one by one, and the rest is the driver's */
    struct card_other others[CARD_OTHERS];
    size_t other_count;
    uint64_t rest_bytes; /* the driver and contexts; not named: with other processes */
    uint64_t free_bytes, total_bytes;
    struct card_sensors sensors;
};

struct cards {
    struct card *list;
    size_t count;
};

/* running must outlive the result. all: those that no program of the list uses, too, where there is
 * NVML. To be given back. */
struct cards cards_of(const struct running *running, bool all);

/* The programs of the list from that one on are told as others. */
void cards_hide(struct cards *cards, const struct running_process *from);

void cards_free(struct cards *cards);
