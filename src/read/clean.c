/* clean.c: see clean.h. The library looks every tenth of a second or less often, and a program that
 * runs out of memory often ends before the next look: of the timeline nothing must be invented,
 * each figure that is added stands elsewhere in the file. */
#include "read/clean.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "vramgc_format.h"

#include <string.h>

#define CLEAN(array) clean_text((array), sizeof(array))

static void clean_head(struct vramgc_file *file) {
    CLEAN(file->version);
    CLEAN(file->run_id);
    CLEAN(file->executable);
    CLEAN(file->host_name);
    CLEAN(file->working_folder);
    CLEAN(file->command_line);
    CLEAN(file->torch_version);
    CLEAN(file->alloc_conf);
    CLEAN(file->alloc_conf_why);
    CLEAN(file->mode);
    CLEAN(file->mode_why);
    CLEAN(file->host.call);
    file->device_count = (uint32_t)min_u64(file->device_count, VRAMGC_MAX_DEVICES);
    file->setting_count = min_u64(file->setting_count, VRAMGC_MAX_SETTINGS);
    file->hook_count = min_u64(file->hook_count, VRAMGC_MAX_HOOKS);
    file->stack_count = min_u64(file->stack_count, VRAMGC_MAX_STACKS);
    file->library_count = min_u64(file->library_count, VRAMGC_MAX_LIBRARIES);
}

static void clean_stacks(struct vramgc_file *file) {
    for (size_t i = 0; i < file->stack_count; i++) {
        struct vramgc_stack *stack = &file->stacks[i];
        stack->frame_count = min_u64(stack->frame_count, VRAMGC_MAX_FRAMES);
        for (size_t j = 0; j < stack->frame_count; j++)
            CLEAN(stack->frames[j].text);
    }
}

static void clean_sites(struct vramgc_file *file) {
    file->site_count = min_u64(file->site_count, VRAMGC_MAX_SITES);
    file->latest_site = file->latest_site <= file->site_count ? file->latest_site : 0;
    for (size_t i = 0; i < file->site_count; i++) {
        CLEAN(file->sites[i].function);
        CLEAN(file->sites[i].file);
        CLEAN(file->sites[i].phase);
    }
}

/* A caller comes before those it calls: each way to the root ends. */
static void clean_calls(struct vramgc_file *file) {
    uint64_t count = min_u64(file->call_count, VRAMGC_MAX_CALLS);
    file->call_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (file->calls[i].caller <= i && file->calls[i].site < file->site_count)
            file->call_count = i + 1;
        else
            break;
}

/* Of an owner without a name nothing is kept. */
static void clean_owners(struct vramgc_owners *owners, uint64_t named) {
    uint64_t count = min_u64(owners->count, VRAMGC_MAX_OWNERS);
    owners->count = 0;
    for (uint64_t i = 0; i < count; i++)
        if (owners->list[i].site < named)
            owners->list[owners->count++] = owners->list[i];
}

static void clean_who(const struct vramgc_file *file, struct vramgc_who *who) {
    uint32_t count = who->count < VRAMGC_WHO_OWNERS ? who->count : VRAMGC_WHO_OWNERS;
    who->count = 0;
    who->works = who->works <= file->site_count ? who->works : 0;
    for (uint32_t i = 0; i < count && who->sites[i] < file->site_count; i++)
        who->count = i + 1;
}

static void clean_devices(struct vramgc_file *file) {
    for (size_t i = file->device_count; i < VRAMGC_MAX_DEVICES; i++)
        memset(&file->devices[i], 0, sizeof file->devices[i]); /* not counted: never recorded */
    for (size_t i = 0; i < file->device_count; i++) {
        struct vramgc_device *device = &file->devices[i];
        CLEAN(device->name);
        CLEAN(device->bus_id);
        device->floors.count = min_u64(device->floors.count, VRAMGC_MAX_FLOORS);
        device->neighbours.count = min_u64(device->neighbours.count, VRAMGC_MAX_NEIGHBOURS);
        for (size_t j = 0; j < VRAMGC_MAX_NEIGHBOURS; j++)
            CLEAN(device->neighbours.list[j].name);
        CLEAN(device->giver.name);
        CLEAN(device->other_card.name);
        clean_owners(&device->owners_at_peak, file->site_count);
        clean_owners(&device->owners_at_oom, file->site_count);
        clean_owners(&device->owners_grown, file->site_count);
        clean_owners(&device->calls_at_peak, file->call_count);
        clean_owners(&device->calls_at_oom, file->call_count);
        device->who_count = min_u64(device->who_count, VRAMGC_MAX_WHO);
        for (uint64_t j = 0; j < device->who_count; j++)
            clean_who(file, &device->who[j]);
        device->sample_count = min_u64(device->sample_count, VRAMGC_MAX_SAMPLES);
    }
}

void clean_file(struct vramgc_file *file) {
    clean_head(file);
    for (size_t i = 0; i < file->setting_count; i++) {
        CLEAN(file->settings[i].name);
        CLEAN(file->settings[i].value);
        CLEAN(file->settings[i].origin);
    }
    for (size_t i = 0; i < file->hook_count; i++)
        CLEAN(file->hooks[i].name);
    for (size_t i = 0; i < file->library_count; i++)
        CLEAN(file->libraries[i].name);
    for (size_t i = 0; i < VRAMGC_MAX_ACTIONS; i++)
        CLEAN(file->actions[i].function), CLEAN(file->actions[i].phase),
            CLEAN(file->actions[i].asker_name);
    for (size_t i = 0; i < VRAMGC_MAX_MARKS; i++)
        CLEAN(file->marks[i].label);
    clean_stacks(file);
    clean_sites(file);
    clean_calls(file);
    clean_devices(file);
}

/* ---- the timeline ---- */

/* Where there is room; points are in the order of time. */
static void insert_point(struct vramgc_device *device, struct vramgc_sample point) {
    uint64_t at = device->sample_count;
    if (at == VRAMGC_MAX_SAMPLES)
        return;
    while (at > 0 && device->samples[at - 1].time_ns > point.time_ns)
        at--;
    memmove(&device->samples[at + 1], &device->samples[at],
            (device->sample_count - at) * sizeof point);
    point.held_low_bytes = point.held_bytes;
    point.allocated_low_bytes = point.allocated_bytes;
    point.ms = 0;
    device->samples[at] = point;
    device->sample_count++;
}

static struct vramgc_sample point_of(const struct vramgc_refusal *r) {
    uint64_t used = minus_u64(r->total_bytes, r->free_bytes);
    return (struct vramgc_sample){.time_ns = r->time_ns,
                                  .held_bytes = r->held_bytes,
                                  .reserved_bytes = r->reserved_bytes,
                                  .allocated_bytes = r->allocated_bytes,
                                  .used_bytes = used,
                                  .others_bytes = minus_u64(used, r->held_bytes)};
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
    return refusal->total_bytes && refusal->cause != VRAMGC_CAUSE_HOST &&
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
