/* vmm_pages.c: see vmm_pages.h. It must know nothing of handles. */
#include "track/vmm_pages.h"

#include "track/device.h"
#include "track/thread.h"

static struct device *range_device(uint64_t address) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        if (!device)
            continue;
        enum heap_kind kind = HEAP_NATIVE;
        lock_take(&device->lock);
        bool inside = heap_contains(device->heap, address, &kind);
        lock_give(&device->lock);
        if (inside && kind == HEAP_EXPANDABLE)
            return device;
    }
    return NULL;
}

void vmm_pages_changed(uint64_t address, uint64_t bytes, bool map) {
    struct device *device = range_device(address);
    if (!device)
        return;
    lock_take(&device->lock);
    bool fits =
        map ? heap_map(device->heap, address, bytes) : heap_unmap(device->heap, address, bytes);
    struct vramgc_device_stats *stats = &device->out->stats;
    figure_bump(map ? &stats->segment_allocs : &stats->segment_frees, 1);
    device_publish(device);
    lock_give(&device->lock);
    if (map) {
        thread_block_pending(device, bytes);
    } else {
        thread_block_unpending(bytes);
        thread_segment_freed(device);
    }
    atomic_store_explicit(&device->expandable, true, memory_order_relaxed);
    if (!fits)
        figure_add(&store_file()->process.unmatched_blocks, 1);
}
