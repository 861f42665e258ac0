/* derived.h: the figures of stats.def as a list, and those of derived.def, which are computed from
 * them when a file is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/units.h"
#include "vramgc_format.h"

enum stat_group { STAT_DEVICE_GAUGE, STAT_DEVICE_TOTAL, STAT_DEVICE_SUM, STAT_PROCESS_TOTAL };

/* One figure of stats.def. */
struct stat_info {
    enum stat_group group;
    const char *name;
    enum unit unit;
    const char *help;
    size_t offset; /* in struct vramgc_device_stats, or vramgc_process_stats */
};

extern const struct stat_info stat_table[];
extern const size_t stat_count;

/* The figure among those of a device, or of the process. A total has no peak. */
struct vramgc_gauge stat_value(const struct stat_info *stat, const void *stats);

enum derived_id {
#define DERIVED(name, condition, value, help) DERIVED_##name,
#include "read/derived.def"
#undef DERIVED
    DERIVED_COUNT
};

struct derived {
    bool known;
    double value;
};

struct derived_info {
    const char *name;
    const char *help;
};

extern const struct derived_info derived_table[DERIVED_COUNT];

/* The figure of a device, which may not be NULL. */
struct derived derived_figure(enum derived_id id, const struct vramgc_device *device);

/* External fragmentation inside PyTorch's segments when a request was refused: 1 - largest hole /
 * free bytes, as in derived.def. Unknown without a hole. */
struct derived external_fragmentation(const struct vramgc_refusal *refusal);

/* Fragmentation index of a refused request: 0 means that memory was lacking inside PyTorch's
 * segments, near 1 that it was there in pieces (Gorman and Whitcroft 2006; as in Linux'
 * extfrag_index): 1 - (1 + free bytes / request) / holes, and 0 where that is negative. Unknown
 * without a hole, and where the request would have fitted into one, as another stream's. */
struct derived fragmentation_index(const struct vramgc_refusal *refusal);

/* PyTorch's part, at most: what others had is not its to give back. In mode compact what is
 * reserved is only addresses. */
uint64_t held_by_pytorch(const struct vramgc_device_stats *stats);

/* A figure of all cards together. The file may be that of a program that runs, as it lies. */
#define ON_ALL_CARDS(file, figure)                                                                 \
    sum_on_all_cards(file, offsetof(struct vramgc_device_stats, figure))
uint64_t sum_on_all_cards(const struct vramgc_file *file, size_t offset);

/* How the memory of a card was divided at one moment; the parts add up to total_bytes. */
struct division {
    bool known; /* false: total or use was never read; then only held_bytes is valid */
    uint64_t held_bytes;
    uint64_t others_bytes;
    uint64_t free_bytes;
    uint64_t total_bytes;
};

/* When the process held most: held_bytes is the exact peak, others_bytes that of the timeline's
 * point with most held, or that of the end where the device was not read in time. */
struct division division_at_peak(const struct vramgc_device *device);

/* The least that others and the driver had at any of its samples, or have now. */
uint64_t others_least(const struct vramgc_device *device);

/* At the end, or now. */
struct division division_at_end(const struct vramgc_device *device);

/* When it last rested; not known where it never did, or before the card was first read. */
struct division division_at_rest(const struct vramgc_device *device);

/* The latest moment that tells of the work: now, while it runs; else its last rest, if it did
 * nothing but end after that; else the end. Nothing of it outlives device. */
struct last_moment {
    const char *name;
    const struct vramgc_device_stats *stats;
    const struct vramgc_gauge *of_libraries;
    struct division division;
};
struct last_moment last_moment_of(const struct vramgc_device *device, bool runs);

/* The program's resident part of the host's memory, but for files: nobody else can give it back.
 */
static inline uint64_t ram_bytes(const struct vramgc_host_look *look) {
    return look->anon_bytes + look->shared_bytes;
}

/* The next point becomes part of this one, as if both were one. */
void sample_join(struct vramgc_sample *sample, const struct vramgc_sample *next);

/* Live bytes on average over the time of the point. */
uint64_t sample_live_mean(const struct vramgc_sample *sample);

/* The bytes that the owner of that number had then. */
static inline uint64_t who_bytes(const struct vramgc_who *who, uint32_t number) {
    return (uint64_t)who->kib[number] << 10;
}

/* The point of the timeline with most held bytes, NULL without any. */
const struct vramgc_sample *highest_sample(const struct vramgc_device *device);
