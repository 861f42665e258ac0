/* api.c: the functions of include/vramgc.h. Each only reads what is recorded, or leaves a wish for
 * vramgc's own thread. */
#define VRAMGC_BUILD
#include "govern/reclaim.h"
#include "govern/own_thread.h"
#include "track/block_map.h"
#include "track/device.h"
#include "track/process_state.h"
#include "vramgc.h"

#include <errno.h>
#include <string.h>

static struct device *known_device(int index) {
    return recording_is_on() && index >= 0 ? device_if_ready((unsigned)index) : NULL;
}

int vramgc_version(void) {
    return VRAMGC_VERSION_NUMBER;
}

static struct vramgc_snapshot snapshot_of(const struct vramgc_device_stats *stats) {
    return (struct vramgc_snapshot){
        .held_bytes = figure_get(&stats->held_bytes.current),
        .reserved_bytes = figure_get(&stats->reserved_bytes.current),
        .allocated_bytes = figure_get(&stats->allocated_bytes.current),
        .active_bytes = figure_get(&stats->active_bytes.current),
        .inactive_split_bytes = figure_get(&stats->inactive_split_bytes.current),
        .releasable_bytes = figure_get(&stats->releasable_bytes.current),
        .idle_bytes = figure_get(&stats->idle_bytes.current),
        .largest_hole_bytes = figure_get(&stats->largest_hole_bytes.current),
        .segments = figure_get(&stats->segments.current),
        .blocks = figure_get(&stats->blocks.current),
        .reclaims = figure_get(&stats->reclaims),
        .refusals = figure_get(&stats->refusals),
        .soft_ooms = figure_get(&stats->soft_ooms),
        .flushes = figure_get(&stats->flushes),
    };
}

/* A program built with an older or newer header knows fewer or more fields. */
int vramgc_snapshot(int index, struct vramgc_snapshot *out) {
    struct device *device = known_device(index);
    if (!device || out->size < offsetof(struct vramgc_snapshot, reserved_bytes))
        return -1;
    struct vramgc_snapshot snapshot = snapshot_of(&device->out->stats);
    snapshot.size = min_u64(out->size, sizeof snapshot);
    memcpy(out, &snapshot, snapshot.size);
    return 0;
}

struct copy {
    struct vramgc_block *out;
    size_t capacity, count;
};

static bool copy_block(const struct heap_run *run, void *context) {
    struct copy *copy = context;
    if (run->state == HEAP_UNMAPPED)
        return true;
    if (copy->count < copy->capacity)
        copy->out[copy->count] = block_map_entry(run);
    copy->count++;
    return true;
}

int vramgc_blocks(int index, struct vramgc_block *out, size_t capacity, size_t *count) {
    struct device *device = known_device(index);
    if (!device)
        return -1;
    struct copy copy = {.out = out, .capacity = capacity};
    lock_take(&device->lock);
    heap_walk(device->heap, copy_block, &copy);
    lock_give(&device->lock);
    *count = copy.count;
    return 0;
}

int vramgc_mark(const char *label) {
    if (!recording_is_on())
        return -1;
    store_mark(label);
    return 0;
}

int vramgc_reclaim(int index) {
    struct device *device = known_device(index);
    if (!device || settings_policy().mode == POLICY_OFF) /* read by now */
        return -1;
    atomic_store(&reclaim_of(device)->asked, true);
    wakeup(WAKEUP_LOOK);
    return 0;
}

int vramgc_write_report(const char *path) {
    if (!recording_is_on()) {
        errno = ENODATA;
        return -1;
    }
    return store_save_as(path) ? 0 : -1;
}
