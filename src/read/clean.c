/* clean.c: see clean.h. */
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

static void clean_libraries(struct vramgc_file *file) {
    file->library_count = min_u64(file->library_count, VRAMGC_MAX_LIBRARIES);
    for (size_t i = 0; i < file->library_count; i++)
        CLEAN(file->libraries[i].name);
}

/* Of an owner without a name nothing is kept. */
static void clean_owners(struct vramgc_owners *owners, uint64_t most, uint64_t named) {
    uint64_t count = min_u64(owners->count, most);
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
        clean_owners(&device->owners_at_peak, VRAMGC_MAX_OWNERS, file->site_count);
        clean_owners(&device->owners_at_oom, VRAMGC_MAX_OWNERS, file->site_count);
        clean_owners(&device->owners_grown, VRAMGC_MAX_OWNERS, file->site_count);
        clean_owners(&device->calls_at_peak, VRAMGC_MAX_CALLERS, file->call_count);
        clean_owners(&device->calls_at_oom, VRAMGC_MAX_CALLERS, file->call_count);
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
    for (size_t i = 0; i < VRAMGC_MAX_ACTIONS; i++)
        CLEAN(file->actions[i].function), CLEAN(file->actions[i].phase),
            CLEAN(file->actions[i].asker_name);
    for (size_t i = 0; i < VRAMGC_MAX_MARKS; i++)
        CLEAN(file->marks[i].label);
    clean_stacks(file);
    clean_sites(file);
    clean_calls(file);
    clean_libraries(file);
    clean_devices(file);
}
