/* timeline.c: see timeline.h. The library looks every tenth of a second or less often, and a
 * program that runs out of memory often ends before the next look. It must not invent: each figure
 * it adds stands elsewhere in the file. */
#include "read/timeline.h"
#include "base/base.h"

#include <string.h>

/* Where there is room; points are in the order of time. */
static void insert_point(struct vramgc_device *device, struct vramgc_sample point) {
    uint64_t at = device->sample_count;
    if (at == VRAMGC_MAX_SAMPLES)
        return;
    while (at > 0 && device->samples[at - 1].time_ns > point.time_ns)
        at--;
    memmove(&device->samples[at + 1], &device->samples[at],
            (device->sample_count - at) * sizeof point);
    device->samples[at] = point;
    device->sample_count++;
}

static struct vramgc_sample point_of(const struct vramgc_refusal *r) {
    uint64_t used = minus_u64(r->total_bytes, r->free_bytes);
    return (struct vramgc_sample){
        r->time_ns,         r->held_bytes, r->reserved_bytes,
        r->allocated_bytes, used,          minus_u64(used, r->held_bytes)};
}

static uint64_t unseen(const struct vramgc_gauge *gauge, uint64_t seen, uint64_t latest) {
    return gauge->peak > seen ? gauge->peak : latest;
}

/* Peaks that no point has were reached after the last of them. That of live memory may be missed by
 * a look that it falls in the midst of: where nothing was refused since it says nothing alone. */
static void add_peak(struct vramgc_device *device, uint64_t end_ns, bool refused) {
    const struct vramgc_device_stats *s = &device->stats;
    struct vramgc_sample most = {0}, point = {0};
    for (uint64_t i = 0; i < device->sample_count; i++) {
        point = device->samples[i];
        most.held_bytes = max_u64(most.held_bytes, point.held_bytes);
        most.reserved_bytes = max_u64(most.reserved_bytes, point.reserved_bytes);
        most.allocated_bytes = max_u64(most.allocated_bytes, point.allocated_bytes);
    }
    if (s->held_bytes.peak <= most.held_bytes &&
        !(refused && s->live_bytes.peak > most.allocated_bytes))
        return;
    point.time_ns = max_u64(end_ns, point.time_ns);
    point.held_bytes = unseen(&s->held_bytes, most.held_bytes, point.held_bytes);
    point.reserved_bytes = unseen(&s->reserved_bytes, most.reserved_bytes, point.reserved_bytes);
    point.allocated_bytes = unseen(&s->live_bytes, most.allocated_bytes, point.allocated_bytes);
    point.others_bytes = point.others_bytes ? point.others_bytes : s->others_bytes.current;
    point.used_bytes = min_u64(point.held_bytes + point.others_bytes, device->total_bytes);
    insert_point(device, point);
}

static bool is_after(const struct vramgc_refusal *refusal, size_t index, uint64_t time_ns) {
    return refusal->device == index && refusal->time_ns > time_ns;
}

/* Not of the host's memory. More than was ever held was not held then: the file is damaged. */
static bool is_of_card(const struct vramgc_refusal *refusal, const struct vramgc_device *device) {
    return refusal->total_bytes && refusal->cause != VRAMGC_REFUSAL_HOST &&
           refusal->held_bytes <= device->stats.held_bytes.peak;
}

/* Before memory was refused, where it was, for what was taken in vain has gone back by then. The
 * latest refusals first: where there is not room for all, those are the ones that are told. */
static void complete_device(struct vramgc_device *device, size_t index,
                            const struct vramgc_refusal *const *refusals, size_t count,
                            uint64_t end_ns) {
    uint64_t looks = device->sample_count;
    uint64_t looked_ns = looks ? device->samples[looks - 1].time_ns : 0;
    bool refused = false;
    for (size_t i = count; i-- > 0;)
        if (is_after(refusals[i], index, looked_ns)) {
            end_ns = refusals[i]->time_ns - 1;
            refused = true;
        }
    add_peak(device, end_ns, refused);
    for (size_t i = count; i-- > 0;)
        if (is_after(refusals[i], index, 0) && is_of_card(refusals[i], device))
            insert_point(device, point_of(refusals[i]));
}

void timeline_complete(struct vramgc_file *file, const struct vramgc_refusal *const *refusals,
                       size_t count, uint64_t elapsed_ns) {
    for (size_t i = 0; i < file->device_count; i++)
        if (file->devices[i].present)
            complete_device(&file->devices[i], i, refusals, count, elapsed_ns);
}
