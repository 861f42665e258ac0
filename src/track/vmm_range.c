/* vmm_range.c: see vmm_range.h. Addresses are no memory, and must never be counted as such. */
#include "track/vmm_range.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "track/device.h"
#include "track/thread.h"

static struct hashmap_entry first_ranges[64];

static struct {
    struct lock lock;
    struct hashmap ranges; /* address -> bytes, device, class: engine */
    _Atomic uint64_t largest_bytes;
} self = {.ranges = HASHMAP_IN(first_ranges)};
CHILD_OPENS(self.lock);

static bool put(const struct vmm_range *range) {
    struct hashmap_entry entry = {.key = range->address,
                                  .bytes = range->bytes,
                                  .class = range->engine,
                                  .device = (uint16_t)range->device};
    lock_take(&self.lock);
    bool added = hashmap_put(&self.ranges, &entry, NULL);
    lock_give(&self.lock);
    return added;
}

static struct vmm_range range_of(const struct hashmap_entry *entry) {
    return (struct vmm_range){entry->key, entry->bytes, entry->device, entry->class};
}

static bool add_to_heap(struct device *device, uint64_t address, uint64_t bytes) {
    lock_take(&device->lock);
    bool added = heap_range_add(device->heap, address, bytes, 0);
    lock_give(&device->lock);
    if (!added)
        figure_add(&store_file()->process.unmatched_blocks, 1);
    return added;
}

bool vmm_range_add(uint64_t address, uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vmm_range range = {address, bytes, VRAMGC_MAX_DEVICES, VRAMGC_MAX_DEVICES};
    if (!put(&range))
        return false;
    if (bytes > atomic_load(&self.largest_bytes))
        atomic_store(&self.largest_bytes, bytes);
    if (device && add_to_heap(device, address, bytes)) {
        range.device = device_index(device);
        put(&range);
    }
    return true;
}

uint64_t vmm_range_largest_bytes(void) {
    return atomic_load_explicit(&self.largest_bytes, memory_order_relaxed);
}

struct search {
    uint64_t address;
    struct hashmap_entry *found;
};

static bool look_around(const struct hashmap_entry *entry, void *context) {
    struct search *search = context;
    if (search->address - entry->key < entry->bytes)
        search->found = (struct hashmap_entry *)entry;
    return false;
}

/* There are few. */
struct vmm_range vmm_range_lookup(uint64_t address) {
    struct vmm_range range = {0};
    lock_take(&self.lock);
    struct search search = {address, hashmap_find(&self.ranges, address)};
    if (!search.found)
        hashmap_sweep(&self.ranges, look_around, &search);
    if (search.found)
        range = range_of(search.found);
    lock_give(&self.lock);
    return range;
}

void vmm_range_enter(const struct vmm_range *range, unsigned engine) {
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.ranges, range->address);
    if (entry)
        entry->class = engine;
    lock_give(&self.lock);
}

static struct device *heap_of(const struct vmm_range *range) {
    return range->bytes && recording_is_on() ? device_if_ready(range->device) : NULL;
}

struct vmm_range vmm_range_free_begin(uint64_t address) {
    struct vmm_range range = {.address = address};
    struct hashmap_entry entry;
    lock_take(&self.lock);
    if (hashmap_take(&self.ranges, address, &entry))
        range = range_of(&entry);
    lock_give(&self.lock);
    struct device *device = heap_of(&range);
    if (!device)
        return range;
    lock_take(&device->lock);
    heap_segment_remove(device->heap, address, NULL);
    device_publish(device);
    lock_give(&device->lock);
    return range;
}

void vmm_range_free_abort(const struct vmm_range *range) {
    struct device *device = heap_of(range);
    if (range->bytes)
        put(range);
    if (!device)
        return;
    lock_take(&device->lock);
    heap_segment_restore(device->heap, range->address);
    device_publish(device);
    lock_give(&device->lock);
}

void vmm_range_free_commit(const struct vmm_range *range) {
    struct device *device = heap_of(range);
    if (!device)
        return;
    lock_take(&device->lock);
    heap_segment_forget(device->heap, range->address);
    lock_give(&device->lock);
}

/* The heap and the engine they were in are no more. */
static bool leave(const struct hashmap_entry *entry, void *context) {
    unsigned device = *(const unsigned *)context;
    struct hashmap_entry *range = (struct hashmap_entry *)entry;
    if (range->class == device)
        range->class = VRAMGC_MAX_DEVICES;
    if (range->device == device)
        range->device = VRAMGC_MAX_DEVICES;
    return false;
}

void vmm_range_reset(unsigned device) {
    lock_take(&self.lock);
    hashmap_sweep(&self.ranges, leave, &device);
    lock_give(&self.lock);
}

/* --- pages; nothing is known of handles here --- */

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
