/* card_reading.h: what the driver's management library (NVML) says of a card now, whoever uses it.
 */
#pragma once

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

/* Its memory anew. */
void card_read_memory(const char *bus_id, struct card_reading *reading);

bool card_is_divided(const char *bus_id);               /* MIG */
bool card_has_client(const char *bus_id, uint64_t pid); /* of MPS */

/* The machine's cards, used or not; how many there are, room at most. */
size_t card_labels(struct card_label *out, size_t room);
