/* ring.h: entries of the statistics file that many threads, and processes that share it, may add at
 * the same moment, while others read: see vramgc_format.h. No thread waits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every kind of entry is whole words and begins with its sequence and its time. */
#define RING_BEGINS_RIGHT(kind)                                                                    \
    _Static_assert(offsetof(struct kind, sequence) == 0 &&                                         \
                       offsetof(struct kind, time_ns) == sizeof(uint64_t) &&                       \
                       sizeof(struct kind) % sizeof(uint64_t) == 0,                                \
                   "ring.c relies on it")

struct ring {
    uint64_t *written; /* how many entries were begun */
    void *slots;
    uint64_t capacity;
    size_t entry_bytes;
    uint64_t *lost; /* counts what is overwritten */
};

/* A ring of the file, by its name there. */
#define RING(file, name)                                                                           \
    ((struct ring){&(file)->name##_written, (file)->name,                                          \
                   sizeof(file)->name / sizeof *(file)->name, sizeof *(file)->name,                \
                   &(file)->process.lost_records})

/* Adds a copy of the entry, whose sequence does not matter. Its sequence. */
uint64_t ring_put(const struct ring *ring, const void *entry);

/* Puts the entry in the place of the one with its sequence; does nothing when a later one has taken
 * that. */
void ring_put_again(const struct ring *ring, const void *entry);

/* Copies entry number index, counted from 0. False: it is not complete, or a later one has taken
 * its place. */
bool ring_get(const struct ring *ring, uint64_t index, void *out);
