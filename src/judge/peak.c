/* peak.c: see peak.h. It must not call a peak short that a longer look would find again. */
#include "judge/peak.h"
#include "base/base.h"

/* Short is what lies within this part of the run on either side of its highest point, a quarter in
 * all: there must be so many points that it is some of them. */
enum { SIDE = 8, LEAST_SAMPLES = 16 };

/* It stands out by this much and by this part of itself, as idle memory does that is worth a word
 * (VERDICT_IDLE_BYTES); what is less than half of it is not the program's work, but its start. */
#define LEAST_BYTES ((uint64_t)512 << 20)
enum { LEAST_PART = 16, MOST_ELSE = 2 };

static uint64_t highest_live(const struct vramgc_device *device) {
    uint64_t highest = 0;
    for (uint64_t i = 1; i < device->sample_count; i++)
        if (device->samples[i].allocated_bytes > device->samples[highest].allocated_bytes)
            highest = i;
    return highest;
}

/* A point has what was seen since the one before, and until the next. */
static uint64_t start_of(const struct vramgc_device *device, uint64_t i) {
    return i > 0 ? device->samples[i - 1].time_ns : 0;
}

static uint64_t end_of(const struct vramgc_device *device, uint64_t i) {
    return i + 1 < device->sample_count ? device->samples[i + 1].time_ns
                                        : device->samples[i].time_ns;
}

static uint64_t most_elsewhere(const struct vramgc_device *device, uint64_t from_ns,
                               uint64_t until_ns) {
    uint64_t most = 0;
    for (uint64_t i = 0; i < device->sample_count; i++)
        if (end_of(device, i) <= from_ns || start_of(device, i) >= until_ns)
            most = max_u64(most, device->samples[i].allocated_bytes);
    return most;
}

struct short_peak short_peak_of(const struct vramgc_device *device, uint64_t elapsed_ns) {
    if (device->sample_count < LEAST_SAMPLES)
        return (struct short_peak){0};
    uint64_t highest = highest_live(device), side_ns = elapsed_ns / SIDE;
    struct short_peak peak = {.time_ns = device->samples[highest].time_ns,
                              .live_bytes = device->samples[highest].allocated_bytes};
    peak.from_ns = minus_u64(start_of(device, highest), side_ns);
    peak.until_ns = end_of(device, highest) + side_ns;
    peak.else_bytes = most_elsewhere(device, peak.from_ns, peak.until_ns);
    uint64_t more = minus_u64(peak.live_bytes, peak.else_bytes);
    peak.stands_alone = more >= max_u64(LEAST_BYTES, peak.live_bytes / LEAST_PART) &&
                        peak.else_bytes >= peak.live_bytes / MOST_ELSE;
    return peak;
}
