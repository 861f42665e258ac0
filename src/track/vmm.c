/* vmm.c: physical memory made with cuMemCreate, where it is mapped, and the address ranges of
 * PyTorch's expandable segments. Bytes belong to the handle; a mapping or a reservation never
 * counts as memory. Physical memory is gone when the last reference and the last mapping are. */
#include "base/lock.h"
#include "track/device.h"
#include "base/hashmap.h"
#include "serve/native.h"
#include "serve/expandable.h"
#include "track/record.h"
#include "track/stack.h"

enum { FLAG_ALLOCATOR = 1, FLAG_IMPORTED = 2, FLAG_VIRTUAL = 4 };

/* The link of a handle counts its references in the upper half, its mappings in the lower. */
#define ONE_REFERENCE ((uint64_t)1 << 32)

/* Handles released while still mapped get a key of our own: the driver may give the number out
 * again. Real handles and addresses do not have this bit. */
#define ORPHAN ((uint64_t)1 << 63)

static struct {
    struct lock lock;
    struct ledger handles;  /* handle -> bytes, device, link: references and mappings */
    struct ledger mappings; /* address -> bytes, link: handle */
    struct ledger leaving;  /* ticket -> bytes, link: handle, context: address; being unmapped */
    struct ledger ranges;   /* address -> bytes: reserved by PyTorch's allocator */
    uint64_t orphans, tickets;
} self;

static void count(const struct ledger_entry *physical, bool more) {
    struct device *device = device_if_ready(physical->device);
    if (!device || physical->flags & FLAG_VIRTUAL)
        return;
    struct vramgc_device_stats *stats = &device->out->stats;
    void (*change)(struct vramgc_gauge *, uint64_t) = more ? gauge_add : gauge_subtract;
    if (physical->flags & FLAG_IMPORTED) {
        change(&stats->imported_bytes, physical->bytes);
        return;
    }
    change(&stats->held_bytes, physical->bytes);
    if (!(physical->flags & FLAG_ALLOCATOR))
        change(&stats->other_bytes, physical->bytes);
}

/* PyTorch makes all pages that a block needs before it maps the first, on one thread. */
static void take_from_ahead(uint64_t bytes) {
    uint64_t *ahead = &record_thread.pages_ahead_bytes;
    *ahead = minus_u64(*ahead, bytes);
}

void record_driver_call(void) {
    struct device *device = record_ready() ? device_current() : NULL;
    if (device)
        figure_add(&device->out->stats.driver_calls, 1);
}

void record_reserved(uint64_t address, uint64_t bytes, bool allocator) {
    record_allocated(CLASS_ADDRESS, address, bytes, false);
    struct device *device = record_is_on() && allocator ? device_current() : NULL;
    if (!device)
        return;
    lock_take(&device->lock);
    bool added = heap_range_add(device->heap, address, bytes, 0);
    lock_give(&device->lock);
    if (!added) {
        figure_add(&store_file()->process.unmatched_blocks, 1);
        return;
    }
    struct ledger_entry range = {
        .key = address, .bytes = bytes, .device = (uint16_t)device_index(device)};
    lock_take(&self.lock);
    ledger_put(&self.ranges, &range, NULL);
    lock_give(&self.lock);
}

/* Taken out before cuMemAddressFree, like everything: the driver may give the addresses out again
 * at once. */
struct record_taken record_range_take(uint64_t address) {
    struct record_taken taken = {.address = address};
    struct ledger_entry range;
    if (!record_is_on())
        return taken;
    lock_take(&self.lock);
    taken.known = ledger_take(&self.ranges, address, &range);
    lock_give(&self.lock);
    struct device *device = taken.known ? device_if_ready(range.device) : NULL;
    if (!device)
        return taken;
    taken.bytes = range.bytes;
    taken.device = range.device;
    lock_take(&device->lock);
    heap_segment_remove(device->heap, address, NULL);
    device_publish(device);
    lock_give(&device->lock);
    return taken;
}

void record_range_put_back(const struct record_taken *taken) {
    struct device *device = taken->known ? device_if_ready(taken->device) : NULL;
    if (!device || !record_is_on())
        return;
    struct ledger_entry range = {
        .key = taken->address, .bytes = taken->bytes, .device = (uint16_t)taken->device};
    lock_take(&self.lock);
    ledger_put(&self.ranges, &range, NULL);
    lock_give(&self.lock);
    lock_take(&device->lock);
    heap_segment_restore(device->heap, taken->address);
    device_publish(device);
    lock_give(&device->lock);
}

void record_range_gone(const struct record_taken *taken) {
    struct device *device = taken->known ? device_if_ready(taken->device) : NULL;
    if (!device || !record_is_on())
        return;
    lock_take(&device->lock);
    heap_segment_forget(device->heap, taken->address);
    lock_give(&device->lock);
}

static void add_handle(uint64_t handle, uint64_t bytes, unsigned device, uint16_t flags) {
    struct ledger_entry entry = {.key = handle,
                                 .bytes = bytes,
                                 .link = ONE_REFERENCE,
                                 .device = (uint16_t)device,
                                 .flags = flags};
    lock_take(&self.lock);
    bool kept = ledger_put(&self.handles, &entry, NULL);
    lock_give(&self.lock);
    if (kept)
        count(&entry, true);
    else
        figure_add(&store_file()->process.internal_errors, 1);
}

/* Expandable segments grow without a cudaMalloc at which the threshold would be looked at: if this
 * growth crosses it, our thread looks now and not at its next step. */
static void kick_if_over_threshold(struct device *device) {
    uint64_t total = atomic_load_explicit(&device->total_bytes, memory_order_relaxed);
    uint64_t used = minus_u64(total, device_free_bytes(device));
    uint64_t gain =
        paged_engine(device) ? paged_idle_bytes(device) : device_releasable_bytes(device);
    bool over = (double)used * 100 > record_options()->threshold * (double)total;
    if (over && gain > 0 && gain >= record_options()->min_gain)
        ticker_kick();
}

void record_created(uint64_t handle, uint64_t bytes, const CUmemAllocationProp *properties,
                    bool allocator) {
    if (!record_ready() || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return;
    struct device *device = device_at((unsigned)properties->location.id);
    if (!device)
        return;
    figure_add(&device->out->stats.driver_calls, !virtual_is(handle));
    if (allocator) {
        refusal_page_asked(device);
        record_thread.pages_ahead_bytes += bytes;
    } else {
        record_granted(bytes);
    }
    stacks_note(bytes);
    add_handle(handle, bytes, device_index(device),
               virtual_is(handle) ? FLAG_ALLOCATOR | FLAG_VIRTUAL
               : allocator        ? FLAG_ALLOCATOR
                                  : 0);
    if (allocator)
        kick_if_over_threshold(device);
}

/* One more reference to a handle that this process has made or imported before. False: it has not.
 */
static bool add_reference(uint64_t handle) {
    lock_take(&self.lock);
    struct ledger_entry *entry = ledger_find(&self.handles, handle);
    if (entry)
        entry->link += ONE_REFERENCE;
    lock_give(&self.lock);
    return entry != NULL;
}

/* The size of an imported handle is learnt when it is mapped. */
void record_imported_handle(uint64_t handle) {
    struct device *device = record_ready() ? device_current() : NULL;
    if (device && !add_reference(handle))
        add_handle(handle, 0, device_index(device), FLAG_IMPORTED);
}

struct rename {
    uint64_t from, to;
};

static bool rename_mapping(const struct ledger_entry *entry, void *context) {
    const struct rename *rename = context;
    if (entry->link == rename->from)
        ((struct ledger_entry *)entry)->link = rename->to;
    return false;
}

static void rename_mappings(struct rename *rename) {
    ledger_sweep(&self.mappings, rename_mapping, rename);
    ledger_sweep(&self.leaving, rename_mapping, rename);
}

/* The last reference goes while mappings remain: the memory lives on under a name of our own, which
 * is returned. */
static uint64_t orphan(struct ledger_entry entry) {
    struct rename rename = {entry.key, ORPHAN | ++self.orphans};
    rename_mappings(&rename);
    entry.key = rename.to;
    ledger_put(&self.handles, &entry, NULL);
    return rename.to;
}

/* It has a reference again, by the name of `handle`. */
static void adopt(uint64_t name, uint64_t handle) {
    struct rename rename = {name, handle};
    struct ledger_entry entry;
    if (!ledger_take(&self.handles, name, &entry))
        return;
    rename_mappings(&rename);
    entry.key = handle;
    entry.link += ONE_REFERENCE;
    ledger_put(&self.handles, &entry, NULL);
}

struct place {
    uint64_t address, handle;
};

static bool look_for_place(const struct ledger_entry *entry, void *context) {
    struct place *place = context;
    if (place->address - entry->key < entry->bytes)
        place->handle = entry->link;
    return false;
}

/* One more reference to the memory mapped at the address. After a release that may be an orphan,
 * and the driver may have given it a new number. */
void record_retained(uint64_t handle, uint64_t address) {
    if (!record_is_on())
        return;
    lock_take(&self.lock);
    struct ledger_entry *entry = ledger_find(&self.handles, handle);
    if (entry) {
        entry->link += ONE_REFERENCE;
    } else {
        struct place place = {.address = address};
        ledger_sweep(&self.mappings, look_for_place, &place);
        adopt(place.handle, handle);
    }
    lock_give(&self.lock);
}

/* A release cannot fail half-way, but it can be refused; then the reference is put back. */
struct record_release record_release_begin(uint64_t handle) {
    struct record_release release = {.handle = handle};
    struct ledger_entry entry, *found;
    if (!record_is_on())
        return release;
    lock_take(&self.lock);
    if ((found = ledger_find(&self.handles, handle)) != NULL) {
        release.known = true;
        release.device = found->device;
        release.flags = found->flags;
        release.bytes = found->bytes;
        found->link -= ONE_REFERENCE;
        if (found->link < ONE_REFERENCE) {
            ledger_take(&self.handles, handle, &entry);
            release.gone = (uint32_t)entry.link == 0;
            if (!release.gone)
                release.orphan = orphan(entry);
        }
    }
    lock_give(&self.lock);
    if (release.gone && release.flags & FLAG_ALLOCATOR)
        take_from_ahead(release.bytes);
    if (release.gone)
        count(&entry, false);
    return release;
}

void record_release_failed(const struct record_release *release) {
    if (!release->known || !record_is_on())
        return;
    if (release->gone) {
        add_handle(release->handle, release->bytes, release->device, release->flags);
        return;
    }
    lock_take(&self.lock);
    struct ledger_entry *entry = ledger_find(&self.handles, release->handle);
    if (release->orphan)
        adopt(release->orphan, release->handle);
    else if (entry)
        entry->link += ONE_REFERENCE;
    lock_give(&self.lock);
}

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

static void change_pages(uint64_t address, uint64_t bytes, bool map) {
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
    if (map)
        segment_taken(device, bytes);
    else
        segment_given_up(bytes);
    atomic_store_explicit(&device->expandable, true, memory_order_relaxed);
    if (!fits)
        figure_add(&store_file()->process.unmatched_blocks, 1);
}

void record_mapped(uint64_t address, uint64_t bytes, uint64_t handle) {
    if (!record_ready())
        return;
    struct ledger_entry mapping = {.key = address, .bytes = bytes, .link = handle}, learnt;
    bool learn = false;
    lock_take(&self.lock);
    ledger_put(&self.mappings, &mapping, NULL);
    struct ledger_entry *entry = ledger_find(&self.handles, handle);
    if (entry) {
        entry->link++;
        learn = (entry->flags & FLAG_IMPORTED) && !entry->bytes;
        if (learn)
            entry->bytes = bytes;
        learnt = *entry;
    }
    lock_give(&self.lock);
    if (learn)
        count(&learnt, true);
    take_from_ahead(bytes);
    if (!virtual_is(handle))
        record_driver_call();
    change_pages(address, bytes, true);
}

/* The lock is held. */
static void move(struct ledger *from, uint64_t key, struct ledger *to, uint64_t new_key) {
    struct ledger_entry mapping;
    if (!ledger_take(from, key, &mapping))
        return;
    mapping.key = new_key;
    mapping.context = key;
    if (!ledger_put(to, &mapping, NULL))
        figure_add(&store_file()->process.internal_errors, 1);
}

/* Taken out before the call, as everything: another thread may map the addresses anew before this
 * one hears that they are free. */
struct record_unmapping record_unmap_begin(uint64_t address, uint64_t bytes) {
    struct record_unmapping unmapping = {.address = address, .bytes = bytes};
    struct ledger_entry *mapping;
    if (!record_is_on())
        return unmapping;
    lock_take(&self.lock);
    unmapping.first = self.tickets + 1;
    for (uint64_t at = address; at - address < bytes; unmapping.count++) {
        if (!(mapping = ledger_find(&self.mappings, at)) || !mapping->bytes)
            break;
        uint64_t next = at + mapping->bytes;
        move(&self.mappings, at, &self.leaving, ++self.tickets);
        at = next;
    }
    lock_give(&self.lock);
    change_pages(address, bytes, false);
    return unmapping;
}

void record_unmap_failed(const struct record_unmapping *unmapping) {
    if (!record_is_on())
        return;
    lock_take(&self.lock);
    for (uint64_t i = 0; i < unmapping->count; i++) {
        struct ledger_entry *leaving = ledger_find(&self.leaving, unmapping->first + i);
        if (leaving)
            move(&self.leaving, leaving->key, &self.mappings, leaving->context);
    }
    lock_give(&self.lock);
    change_pages(unmapping->address, unmapping->bytes, true);
}

/* Takes one mapping off its handle; the memory goes with the last one of a released handle. */
static bool unlink_mapping(uint64_t handle, struct ledger_entry *physical) {
    struct ledger_entry *entry = ledger_find(&self.handles, handle);
    if (!entry)
        return false;
    if ((uint32_t)entry->link > 0)
        entry->link--;
    return entry->link == 0 && ledger_take(&self.handles, handle, physical);
}

void record_unmap_done(const struct record_unmapping *unmapping) {
    bool reached = !unmapping->count; /* the driver */
    if (!record_is_on())
        return;
    for (uint64_t i = 0; i < unmapping->count; i++) {
        struct ledger_entry mapping = {0}, physical;
        lock_take(&self.lock);
        bool known = ledger_take(&self.leaving, unmapping->first + i, &mapping);
        bool gone = known && unlink_mapping(mapping.link, &physical);
        lock_give(&self.lock);
        if (gone)
            count(&physical, false);
        reached = reached || !virtual_is(mapping.link);
    }
    if (reached)
        record_driver_call();
}

static bool has_no_handle(const struct ledger_entry *entry, void *context) {
    (void)context;
    return !ledger_find(&self.handles, entry->link);
}

void vmm_reset(unsigned device) {
    lock_take(&self.lock);
    ledger_drop_device(&self.handles, device);
    ledger_drop_device(&self.ranges, device);
    ledger_sweep(&self.mappings, has_no_handle, NULL);
    ledger_sweep(&self.leaving, has_no_handle, NULL);
    lock_give(&self.lock);
}

void vmm_unlock(void) {
    lock_force_open(&self.lock);
}
