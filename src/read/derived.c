/* derived.c: see derived.h. */
#include "read/derived.h"
#include "base/base.h"

const struct stat_info stat_table[] = {
#define STAT(group, of, name, unit, help)                                                          \
    {STAT_##group, #name, UNIT_##unit, help, offsetof(struct vramgc_##of##_stats, name)},
#define DEVICE_GAUGE(name, unit, help)  STAT(DEVICE_GAUGE, device, name, unit, help)
#define DEVICE_TOTAL(name, unit, help)  STAT(DEVICE_TOTAL, device, name, unit, help)
#define DEVICE_SUM(name, unit, help)    STAT(DEVICE_SUM, device, name, unit, help)
#define PROCESS_TOTAL(name, unit, help) STAT(PROCESS_TOTAL, process, name, unit, help)
#include "stats.def"
};
const size_t stat_count = ARRAY_LENGTH(stat_table);

struct vramgc_gauge stat_value(const struct stat_info *stat, const void *stats) {
    struct vramgc_gauge value = {0};
    memcpy(&value, (const char *)stats + stat->offset,
           stat->group == STAT_DEVICE_GAUGE ? sizeof value : sizeof value.current);
    return value;
}

const struct derived_info derived_table[DERIVED_COUNT] = {
#define DERIVED(name, condition, value, help) {#name, help},
#include "read/derived.def"
#undef DERIVED
};

uint64_t held_by_pytorch(const struct vramgc_device_stats *stats) {
    if (stats->page_bytes.peak > 0)
        return min_u64(stats->page_bytes.peak, stats->held_bytes.peak);
    uint64_t reserved = stats->reserved_bytes.peak, held = stats->held_bytes.peak;
    return reserved > 0 ? min_u64(reserved, held) : held;
}

/* External fragmentation (Wilson et al. 1995). free_bytes may not be 0. */
static double fragmentation(uint64_t largest_hole_bytes, uint64_t free_bytes) {
    return 1 - (double)largest_hole_bytes / (double)free_bytes;
}

uint64_t sum_on_all_cards(const struct vramgc_file *file, size_t offset) {
    uint64_t sum = 0;
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++)
        sum += *(const uint64_t *)((const char *)&file->devices[i].stats + offset);
    return sum;
}

/* The most that was in use of the device, read or known from the peak of what this process held. */
static uint64_t highest_used_bytes(const struct vramgc_device *device) {
    struct division peak = division_at_peak(device);
    uint64_t at_peak = peak.known ? peak.held_bytes + peak.others_bytes : 0;
    return max_u64(device->stats.used_bytes.peak, at_peak);
}

/* No block was handed out after it, no memory refused. */
static bool ended_after_rest(const struct vramgc_device *device) {
    const struct vramgc_device_stats *end = &device->stats, *rest = &device->rest.stats;
    return device->rest.time_ns && rest->block_allocs && rest->block_allocs == end->block_allocs &&
           rest->refusals == end->refusals && rest->ooms == end->ooms;
}

/* Averages are of the work: what Python frees as it ends, one tensor after another, is not. */
struct derived derived_figure(enum derived_id id, const struct vramgc_device *device) {
    const struct vramgc_device_stats *s = &device->stats,
                                     *work = ended_after_rest(device) ? &device->rest.stats : s;
    const uint64_t total = device->total_bytes;
    switch (id) {
#define DERIVED(name, condition, value, help)                                                      \
    case DERIVED_##name:                                                                           \
        return (condition) ? (struct derived){true, (value)} : (struct derived){false, 0};
#include "read/derived.def"
#undef DERIVED
    case DERIVED_COUNT:
        break;
    }
    return (struct derived){false, 0};
}

struct derived external_fragmentation(const struct vramgc_refusal *refusal) {
    if (refusal->hole_bytes == 0 || refusal->largest_hole_bytes > refusal->hole_bytes)
        return (struct derived){false, 0};
    return (struct derived){true, fragmentation(refusal->largest_hole_bytes, refusal->hole_bytes)};
}

struct derived fragmentation_index(const struct vramgc_refusal *refusal) {
    if (refusal->holes == 0 || refusal->request_bytes <= refusal->largest_hole_bytes)
        return (struct derived){false, 0};
    double requests = (double)refusal->hole_bytes / (double)refusal->request_bytes;
    double index = 1 - (1 + requests) / (double)refusal->holes;
    return (struct derived){true, index > 0 ? index : 0};
}

void sample_join(struct vramgc_sample *sample, const struct vramgc_sample *next) {
    sample->held_bytes = max_u64(sample->held_bytes, next->held_bytes);
    sample->allocated_bytes = max_u64(sample->allocated_bytes, next->allocated_bytes);
    sample->held_low_bytes = min_u64(sample->held_low_bytes, next->held_low_bytes);
    sample->allocated_low_bytes = min_u64(sample->allocated_low_bytes, next->allocated_low_bytes);
    sample->allocated_ms_sum_kib += next->allocated_ms_sum_kib;
    sample->ms += next->ms;
}

uint64_t sample_live_mean(const struct vramgc_sample *sample) {
    uint64_t mean = sample->ms ? sample->allocated_ms_sum_kib / sample->ms << 10 : 0;
    return min_u64(max_u64(mean, sample->allocated_low_bytes), sample->allocated_bytes);
}

const struct vramgc_sample *highest_sample(const struct vramgc_device *device) {
    const struct vramgc_sample *highest = NULL;
    for (uint64_t i = 0; i < device->sample_count; i++)
        if (!highest || device->samples[i].held_bytes > highest->held_bytes)
            highest = &device->samples[i];
    return highest;
}

/* Where pages came and went at each reading none told of others: then what was in use tells, which
 * the books keep up. */
static uint64_t others_then(uint64_t others, uint64_t used, uint64_t held) {
    return others ? others : minus_u64(used, held);
}

static uint64_t others_of(const struct vramgc_device_stats *s) {
    return others_then(s->others_bytes.current, s->used_bytes.current, s->held_bytes.current);
}

/* The reading of others is older than what is held: it gives way where both together are
 * more than the card. A reading of less than is held is of before, and tells of none. */
static struct division divide(const struct vramgc_device *device,
                              const struct vramgc_device_stats *s, uint64_t held, uint64_t others) {
    struct division division = {.held_bytes = held, .total_bytes = device->total_bytes};
    bool read =
        s->used_bytes.peak > 0 && (others || s->used_bytes.current >= s->held_bytes.current);
    division.known = device->total_bytes >= held && read;
    if (!division.known)
        return division;
    division.others_bytes = min_u64(others, device->total_bytes - held);
    division.free_bytes = device->total_bytes - held - division.others_bytes;
    return division;
}

/* A sample from before the first reading knows of no others, not even of the driver. */
uint64_t others_least(const struct vramgc_device *device) {
    uint64_t least = others_of(&device->stats);
    for (size_t i = 0; i < device->sample_count; i++)
        if (!least || (device->samples[i].others_bytes && device->samples[i].others_bytes < least))
            least = device->samples[i].others_bytes;
    return least;
}

struct division division_at_peak(const struct vramgc_device *device) {
    const struct vramgc_device_stats *s = &device->stats;
    const struct vramgc_sample *most = highest_sample(device);
    uint64_t others =
        most ? others_then(most->others_bytes, most->used_bytes, most->held_bytes) : 0;
    return divide(device, s, s->held_bytes.peak, others ? others : others_of(s));
}

/* A short program rests, or ends, before the first reading: one that came later will do. */
static struct division division_then(const struct vramgc_device *device,
                                     const struct vramgc_device_stats *s) {
    const struct vramgc_device_stats *read = s->used_bytes.peak > 0 ? s : &device->stats;
    return divide(device, read, s->held_bytes.current, others_of(read));
}

struct division division_at_end(const struct vramgc_device *device) {
    return division_then(device, &device->stats);
}

struct division division_at_rest(const struct vramgc_device *device) {
    return device->rest.time_ns ? division_then(device, &device->rest.stats) : (struct division){0};
}

/* A web UI's user wants what is in use at rest after the last job, and not what is left after
 * Python has freed most. */
struct last_moment last_moment_of(const struct vramgc_device *device, bool runs) {
    const struct vramgc_rest *rest = &device->rest;
    if (runs || !ended_after_rest(device))
        return (struct last_moment){runs ? "now" : "at the end", &device->stats,
                                    device->of_libraries, division_at_end(device)};
    return (struct last_moment){rest->of_end ? "at the end" : "at rest", &rest->stats,
                                rest->of_libraries, division_at_rest(device)};
}
