/* reset.c: a device was reset: what was recorded of it does not exist any more. It must drop that
 * from every book. */
#include "process/reset.h"

#include "process/start.h"
#include "serve/serve.h"
#include "track/alloc.h"
#include "track/block.h"
#include "track/device.h"
#include "track/stream.h"
#include "track/vmm.h"
#include "track/vmm_range.h"

static void gauge_clear(struct vramgc_gauge *gauge) {
    figure_set(&gauge->current, 0);
}

void reset_device(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    if (!device)
        return;
    alloc_reset(index);
    vmm_reset(index);
    vmm_range_reset(index);
    stream_reset(index);
    block_reset(index);
    capture_reset(index);
    lock_take(&device->lock);
    heap_clear(device->heap);
    owners_reset(&device->owners);
    device->pool.live_bytes = 0;
    device->pool.blocks = 0;
    __atomic_store_n(&device->pool.used_bytes, 0, __ATOMIC_RELAXED);
    device->pool.of_pytorch = false;
    __atomic_store_n(&device->pool.idle_bytes, 0, __ATOMIC_RELAXED);
    serve_reset(device);
    device_publish(device);
    struct vramgc_device_stats *stats = &device->out->stats;
    gauge_clear(&stats->held_bytes);
    gauge_clear(&stats->other_bytes);
    gauge_clear(&device->step_bytes);
    for (size_t i = 0; i < VRAMGC_MAX_LIBRARIES; i++)
        gauge_clear(&device->out->of_libraries[i]);
    gauge_clear(&stats->pool_bytes);
    gauge_clear(&stats->managed_bytes);
    gauge_clear(&stats->pinned_bytes);
    gauge_clear(&stats->imported_bytes);
    gauge_clear(&stats->graph_bytes);
    gauge_clear(&stats->address_bytes);
    figure_bump(&stats->resets, 1);
    __atomic_store_n(&device->context, NULL, __ATOMIC_RELAXED);
    lock_give(&device->lock);
}

/* The runtime releases its contexts when the program ends; what it held until then is the record.
 */
void reset_primary_gone(unsigned index) {
    if (!start_is_ending())
        reset_device(index);
}
