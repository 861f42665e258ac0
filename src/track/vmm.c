/* vmm.c: see vmm.h. Bytes belong to the handle: neither a mapping, nor an address, nor a virtual
 * handle may count as memory. */
#include "track/vmm.h"

#include "track/callers.h"
#include "track/device.h"
#include "track/oom.h"
#include "track/thread.h"

static void count_handle(const struct book_handle *physical, bool more) {
    struct device *device = device_if_ready(physical->device);
    if (!device || vhandle_is(physical->handle))
        return;
    struct vramgc_device_stats *stats = &device->out->stats;
    void (*change)(struct vramgc_gauge *, uint64_t) = more ? gauge_add : gauge_subtract;
    if (physical->flags & BOOK_IMPORTED) {
        change(&stats->imported_bytes, physical->bytes);
        return;
    }
    change(&stats->held_bytes, physical->bytes);
    if (!more)
        thread_state.returned_bytes[physical->device] += physical->bytes;
    if (!(physical->flags & BOOK_ALLOCATOR)) {
        change(&stats->other_bytes, physical->bytes);
        library_count(device, physical->flags >> BOOK_LIBRARY_SHIFT, physical->bytes, more);
        if (physical->flags & BOOK_FOR_STEP)
            change(&device->step_bytes, physical->bytes);
    }
}

static void no_memory_for_books(void) {
    figure_add(&store_file()->process.internal_errors, 1);
}

/* --- handles --- */

/* PyTorch makes all pages that a block needs before it maps the first, on one thread. */
static void take_from_ahead(uint64_t bytes) {
    uint64_t *ahead = &thread_state.unmapped_handle_bytes;
    *ahead = minus_u64(*ahead, bytes);
}

void vmm_created(uint64_t handle, uint64_t bytes, const CUmemAllocationProp *properties,
                 bool allocator, bool step) {
    if (!recording_is_on() || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return;
    struct device *device = device_at((unsigned)properties->location.id);
    if (!device)
        return;
    struct book_handle made = {.handle = handle, .bytes = bytes, .device = device_index(device)};
    figure_add(&device->out->stats.driver_calls, !vhandle_is(handle));
    if (allocator && UNLIKELY(thread_state.oom.of_page))
        oom_page_asked(device);
    else if (!allocator && UNLIKELY(oom_is_open()))
        oom_granted(bytes);
    thread_state.unmapped_handle_bytes += allocator ? bytes : 0;
    stack_note(bytes);
    made.flags = allocator ? BOOK_ALLOCATOR
                           : library_calling() << BOOK_LIBRARY_SHIFT | (step ? BOOK_FOR_STEP : 0);
    if (book_add(&made))
        count_handle(&made, true);
    else
        no_memory_for_books();
}

/* The size of an imported handle is learnt when it is mapped. */
void vmm_imported(uint64_t handle) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct book_handle made = {.handle = handle, .flags = BOOK_IMPORTED};
    if (!device || book_retain(handle, 0))
        return;
    made.device = device_index(device);
    if (!book_add(&made))
        no_memory_for_books();
}

struct book_release vmm_release_begin(uint64_t handle) {
    struct book_release release = {.known = false};
    if (recording_is_on())
        release = book_release_begin(handle);
    if (release.gone && release.of.flags & BOOK_ALLOCATOR)
        take_from_ahead(release.of.bytes);
    if (release.gone)
        count_handle(&release.of, false);
    return release;
}

void vmm_release_abort(const struct book_release *release) {
    if (!recording_is_on())
        return;
    if (!book_release_abort(release))
        no_memory_for_books();
    else if (release->gone)
        count_handle(&release->of, true);
}

/* --- mappings --- */

static struct device *range_device(uint64_t address) {
    for (EACH_DEVICE(device)) {
        enum heap_kind kind = HEAP_NATIVE;
        lock_take(&device->lock);
        bool inside = heap_contains(device->heap, address, &kind);
        lock_give(&device->lock);
        if (inside && kind == HEAP_EXPANDABLE)
            return device;
    }
    return NULL;
}

/* Was mapped, or is about to be unmapped. Other addresses than those of PyTorch's segments change
 * nothing. */
static void pages_changed(uint64_t address, uint64_t bytes, bool map) {
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

bool vmm_mapped(uint64_t address, uint64_t bytes, uint64_t handle) {
    struct book_handle learnt;
    if (!recording_is_on())
        return true;
    if (!book_map(address, bytes, handle, &learnt)) {
        no_memory_for_books();
        return false;
    }
    if (learnt.bytes)
        count_handle(&learnt, true);
    take_from_ahead(bytes);
    if (!vhandle_is(handle))
        call_reached_driver();
    pages_changed(address, bytes, true);
    return true;
}

struct book_unmapping vmm_unmap_begin(uint64_t address, uint64_t bytes) {
    if (!recording_is_on())
        return (struct book_unmapping){.address = address, .bytes = bytes};
    struct book_unmapping unmapping = book_unmap_begin(address, bytes);
    pages_changed(address, bytes, false);
    return unmapping;
}

void vmm_unmap_abort(const struct book_unmapping *unmapping) {
    if (!recording_is_on())
        return;
    book_unmap_abort(unmapping);
    pages_changed(unmapping->address, unmapping->bytes, true);
}

uint64_t vmm_unmap_commit(const struct book_unmapping *unmapping) {
    bool reached = !unmapping->count; /* the driver */
    uint64_t virtual_bytes = 0;
    if (!recording_is_on())
        return 0;
    for (uint64_t i = 0; i < unmapping->count; i++) {
        struct book_handle gone;
        reached |= !vhandle_is(book_unmapped(unmapping->first + i, &gone));
        if (gone.handle)
            count_handle(&gone, false);
        virtual_bytes += vhandle_is(gone.handle) ? gone.bytes : 0;
    }
    if (reached)
        call_reached_driver();
    return virtual_bytes;
}

/* --- ranges --- */

static bool add_to_heap(struct device *device, uint64_t address, uint64_t bytes) {
    lock_take(&device->lock);
    bool added = heap_range_add(device->heap, address, bytes, 0);
    lock_give(&device->lock);
    if (!added)
        figure_add(&store_file()->process.unmatched_blocks, 1);
    return added;
}

bool vmm_range_add(uint64_t address, uint64_t bytes, unsigned engine) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct book_range range = {address, bytes, VRAMGC_MAX_DEVICES, engine};
    if (!book_range_put(&range))
        return false;
    if (device && add_to_heap(device, address, bytes)) {
        range.device = device_index(device);
        book_range_put(&range);
    }
    return true;
}

static struct device *heap_of(const struct book_range *range) {
    return range->bytes && recording_is_on() ? device_if_ready(range->device) : NULL;
}

struct book_range vmm_range_free_begin(uint64_t address) {
    struct book_range range = book_range_take(address);
    struct device *device = heap_of(&range);
    if (!device)
        return range;
    LOCKED(&device->lock);
    heap_segment_remove(device->heap, address, NULL);
    device_publish(device);
    return range;
}

void vmm_range_free_abort(const struct book_range *range) {
    struct device *device = heap_of(range);
    if (range->bytes)
        book_range_put(range);
    if (!device)
        return;
    LOCKED(&device->lock);
    heap_segment_restore(device->heap, range->address);
    device_publish(device);
}

void vmm_range_free_commit(const struct book_range *range) {
    struct device *device = heap_of(range);
    if (!device)
        return;
    LOCKED(&device->lock);
    heap_segment_forget(device->heap, range->address);
}
