/* nvml.h: the driver's management library (NVML): the cards of the machine, and who has memory of
 * them. No figure is believed that NVML says it does not know. It may wait and allocate: no thread
 * of the program may ask. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nvml_card *nvml_card; /* NULL: there is none; nothing is known of it */

/* nvmlMemory_t. */
struct nvml_memory {
    unsigned long long total, free, used;
};

enum { NVML_PROCESSES = 64 }; /* of more nothing is told: a card has a few */

struct nvml_user {
    uint64_t pid; /* as NVML numbers it: in a container perhaps not as we do */
    uint64_t bytes;
    int busy_percent; /* of the card's time; -1: not known */
};

struct nvml_users {
    bool complete; /* all are there, each with what it has */
    size_t count;
    struct nvml_user list[NVML_PROCESSES];
};

struct nvml_process; /* its own */
struct nvml_pci;
struct nvml_sample;

/* Its functions; NULL: this one has it not. */
struct nvml {
#define FUNCTION(name, symbol, parameters) int(*name) parameters;
#include "base/nvml.def"
#undef FUNCTION
};

/* Loads the library, whose functions `lookup` finds as dlsym does. False: there is none that works.
 * After nvml_close it is asked no more; it stays loaded. */
bool nvml_open(struct nvml *nvml, void *(*lookup)(void *library, const char *symbol));
void nvml_close(const struct nvml *nvml);

/* By the bus id that CUDA tells; by number in the order of the bus, as nvidia-smi counts. */
nvml_card nvml_by_bus(const struct nvml *nvml, const char *bus_id);
nvml_card nvml_by_number(const struct nvml *nvml, unsigned number);
unsigned nvml_count(const struct nvml *nvml);

bool nvml_memory(const struct nvml *nvml, nvml_card card, struct nvml_memory *out);
bool nvml_name(const struct nvml *nvml, nvml_card card, char *name, size_t bytes);
bool nvml_uuid(const struct nvml *nvml, nvml_card card, char *uuid, size_t bytes); /* "GPU-..." */
bool nvml_bus_id(const struct nvml *nvml, nvml_card card, char *bus_id, size_t bytes);
bool nvml_has_display(const struct nvml *nvml, nvml_card card);
bool nvml_is_divided(const struct nvml *nvml, nvml_card card);               /* MIG */
bool nvml_has_client(const struct nvml *nvml, nvml_card card, uint64_t pid); /* of MPS */

/* Who computes there; and those besides who only draw. */
void nvml_users(const struct nvml *nvml, nvml_card card, struct nvml_users *out);
void nvml_add_graphics(const struct nvml *nvml, nvml_card card, struct nvml_users *out);

/* How busy each of them kept the card within the latest seconds. */
void nvml_add_busy(const struct nvml *nvml, nvml_card card, struct nvml_users *users);
