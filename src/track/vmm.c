/* vmm.c: physical memory made with cuMemCreate, and where it is mapped. Bytes belong to the handle;
 * a mapping never counts as memory. Physical memory is gone when the last reference and the last
 * mapping are. A virtual handle is no memory, and keeps its number as long as it has either. */
#include "track/vmm.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "track/callers.h"
#include "track/device.h"
#include "track/oom.h"
#include "track/thread.h"
#include "track/vmm_range.h"

enum {
    FLAG_ALLOCATOR = 1,
    FLAG_IMPORTED = 2,
    FLAG_SHARED = 4, /* others may have it, too */
    FLAG_CACHED = 8, /* PyTorch has released it */
};

/* The link of a handle counts its references in the upper half, its mappings in the lower. */
#define ONE_REFERENCE ((uint64_t)1 << 32)

/* Handles released while still mapped get a key of our own: the driver may give the number out
 * again. Real handles and addresses do not have this bit. */
#define ORPHAN ((uint64_t)1 << 63)

static struct hashmap_entry first_handles[1024], first_mappings[1024], first_leaving[1024];

static struct {
    struct lock lock;
    struct hashmap handles;  /* handle -> bytes, device, link: references and mappings */
    struct hashmap mappings; /* address -> bytes, link: handle */
    struct hashmap leaving;  /* ticket -> bytes, link: handle, context: address; being unmapped */
    uint64_t orphans, tickets;
    uint64_t longest_bytes; /* of all mappings of virtual handles so far; of others' */
    uint64_t longest_lent_bytes;
} self = {.handles = HASHMAP_IN(first_handles),
          .mappings = HASHMAP_IN(first_mappings),
          .leaving = HASHMAP_IN(first_leaving)};
CHILD_OPENS(self.lock);

static void count(const struct hashmap_entry *physical, bool more) {
    struct device *device = device_if_ready(physical->device);
    if (!device || vhandle_is(physical->key))
        return;
    struct vramgc_device_stats *stats = &device->out->stats;
    void (*change)(struct vramgc_gauge *, uint64_t) = more ? gauge_add : gauge_subtract;
    if (physical->flags & FLAG_IMPORTED) {
        change(&stats->imported_bytes, physical->bytes);
        return;
    }
    change(&stats->held_bytes, physical->bytes);
    if (!more)
        thread_state.returned_bytes[physical->device] += physical->bytes;
    if (!(physical->flags & FLAG_ALLOCATOR)) {
        change(&stats->other_bytes, physical->bytes);
        library_count(device, physical->flags >> LIBRARY_SHIFT, physical->bytes, more);
        if (physical->flags & VMM_FOR_STEP)
            change(&device->step_bytes, physical->bytes);
    }
}

/* PyTorch makes all pages that a block needs before it maps the first, on one thread. */
static void take_from_ahead(uint64_t bytes) {
    uint64_t *ahead = &thread_state.unmapped_handle_bytes;
    *ahead = minus_u64(*ahead, bytes);
}

static void add_handle(uint64_t handle, uint64_t bytes, unsigned device, uint16_t flags) {
    struct hashmap_entry entry = {.key = handle,
                                  .bytes = bytes,
                                  .link = ONE_REFERENCE,
                                  .device = (uint16_t)device,
                                  .flags = flags};
    lock_take(&self.lock);
    bool kept = hashmap_put(&self.handles, &entry, NULL);
    lock_give(&self.lock);
    if (kept)
        count(&entry, true);
    else
        figure_add(&store_file()->process.internal_errors, 1);
}

/* PyTorch's allocator got one. */
static void note_page(struct device *device, uint64_t bytes) {
    if (UNLIKELY(thread_state.oom.of_page))
        oom_page_asked(device);
    thread_state.unmapped_handle_bytes += bytes;
}

void vmm_created(uint64_t handle, uint64_t bytes, const CUmemAllocationProp *properties,
                 bool allocator, bool step) {
    if (!recording_is_on() || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return;
    struct device *device = device_at((unsigned)properties->location.id);
    if (!device)
        return;
    figure_add(&device->out->stats.driver_calls, !vhandle_is(handle));
    if (allocator)
        note_page(device, bytes);
    else if (UNLIKELY(oom_is_open()))
        oom_granted(bytes);
    stack_note(bytes);
    unsigned flags =
        allocator ? FLAG_ALLOCATOR : library_calling() << LIBRARY_SHIFT | (step ? VMM_FOR_STEP : 0);
    add_handle(handle, bytes, device_index(device), (uint16_t)flags);
}

/* One more reference to a handle that this process has made or imported before. False: it has not.
 */
static bool add_reference(uint64_t handle) {
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (entry)
        entry->link += ONE_REFERENCE;
    lock_give(&self.lock);
    return entry != NULL;
}

/* The size of an imported handle is learnt when it is mapped. */
void vmm_imported(uint64_t handle) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (device && !add_reference(handle))
        add_handle(handle, 0, device_index(device), FLAG_IMPORTED);
}

struct rename {
    uint64_t from, to;
};

static bool rename_mapping(const struct hashmap_entry *entry, void *context) {
    const struct rename *rename = context;
    if (entry->link == rename->from)
        ((struct hashmap_entry *)entry)->link = rename->to;
    return false;
}

static void rename_mappings(struct rename *rename) {
    hashmap_sweep(&self.mappings, rename_mapping, rename);
    hashmap_sweep(&self.leaving, rename_mapping, rename);
}

/* The last reference of the driver's handle goes while mappings remain: the memory lives on under a
 * name of our own, which is returned. */
static uint64_t orphan(struct hashmap_entry entry) {
    struct rename rename = {entry.key, ORPHAN | ++self.orphans};
    rename_mappings(&rename);
    entry.key = rename.to;
    hashmap_put(&self.handles, &entry, NULL);
    return rename.to;
}

/* It has a reference again, by the name of `handle`. */
static void adopt(uint64_t name, uint64_t handle) {
    struct rename rename = {name, handle};
    struct hashmap_entry entry;
    if (!hashmap_take(&self.handles, name, &entry))
        return;
    rename_mappings(&rename);
    entry.key = handle;
    entry.link += ONE_REFERENCE;
    hashmap_put(&self.handles, &entry, NULL);
}

struct place {
    uint64_t address, handle;
};

static bool look_for_place(const struct hashmap_entry *entry, void *context) {
    struct place *place = context;
    if (place->address - entry->key < entry->bytes)
        place->handle = entry->link;
    return false;
}

/* One more reference to the memory mapped at the address. After a release that may be an orphan,
 * and the driver may have given it a new number. */
void vmm_retained(uint64_t handle, uint64_t address) {
    if (!recording_is_on())
        return;
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (entry) {
        entry->link += ONE_REFERENCE;
    } else {
        struct place place = {.address = address};
        hashmap_sweep(&self.mappings, look_for_place, &place);
        adopt(place.handle, handle);
    }
    lock_give(&self.lock);
}

/* A release cannot fail half-way, but it can be refused; then the reference is put back. */
struct vmm_release vmm_release_begin(uint64_t handle) {
    struct vmm_release release = {.handle = handle};
    struct hashmap_entry entry, *found;
    if (!recording_is_on())
        return release;
    lock_take(&self.lock);
    if ((found = hashmap_find(&self.handles, handle)) != NULL && found->link >= ONE_REFERENCE) {
        release.known = true;
        release.device = found->device;
        release.flags = found->flags;
        release.bytes = found->bytes;
        found->link -= ONE_REFERENCE;
        if (found->link < ONE_REFERENCE && !(found->link && vhandle_is(handle))) {
            hashmap_take(&self.handles, handle, &entry);
            release.gone = (uint32_t)entry.link == 0;
            if (!release.gone)
                release.orphan = orphan(entry);
        }
    }
    lock_give(&self.lock);
    if (release.gone && (release.flags & (FLAG_ALLOCATOR | FLAG_CACHED)) == FLAG_ALLOCATOR)
        take_from_ahead(release.bytes);
    if (release.gone)
        count(&entry, false);
    return release;
}

void vmm_release_abort(const struct vmm_release *release) {
    if (!release->known || !recording_is_on())
        return;
    if (release->gone) {
        add_handle(release->handle, release->bytes, release->device, release->flags);
        return;
    }
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, release->handle);
    if (release->orphan)
        adopt(release->orphan, release->handle);
    else if (entry)
        entry->link += ONE_REFERENCE;
    lock_give(&self.lock);
}

/* --- released by PyTorch, and cached --- */

enum vmm_cache vmm_cache(uint64_t handle, struct vmm_handle *out) {
    enum vmm_cache answer = VMM_CACHE_NOT;
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (entry && entry->flags & FLAG_CACHED) {
        answer = VMM_CACHE_TWICE;
    } else if (entry && entry->flags == FLAG_ALLOCATOR && entry->link == ONE_REFERENCE) {
        *out = (struct vmm_handle){.device = entry->device, .bytes = entry->bytes, .held = true};
        entry->flags |= FLAG_CACHED;
        answer = VMM_CACHE_DONE;
        take_from_ahead(out->bytes);
    }
    lock_give(&self.lock);
    return answer;
}

static void change_flags(uint64_t handle, unsigned set, unsigned clear) {
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (entry)
        entry->flags = (uint16_t)((entry->flags | set) & ~clear);
    lock_give(&self.lock);
}

void vmm_uncache(const struct vmm_handle *known, uint64_t handle) {
    change_flags(handle, 0, FLAG_CACHED);
    thread_state.unmapped_handle_bytes += known->bytes; /* the release takes it off */
}

void vmm_taken_again(uint64_t handle, uint64_t bytes, struct device *device) {
    change_flags(handle, 0, FLAG_CACHED);
    figure_add(&device->out->stats.handle_reuses, 1);
    note_page(device, bytes);
    stack_note(bytes);
}

void vmm_shared(uint64_t handle) {
    change_flags(handle, FLAG_SHARED, 0);
}

bool vmm_mapped(uint64_t address, uint64_t bytes, uint64_t handle) {
    if (!recording_is_on())
        return true;
    struct hashmap_entry learnt,
        mapping = {.key = address, .bytes = bytes, .link = handle, .flags = VMM_FRESH};
    bool learn = false;
    lock_take(&self.lock);
    bool known = hashmap_put(&self.mappings, &mapping, NULL);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (entry && known) {
        entry->link++;
        learn = (entry->flags & FLAG_IMPORTED) && !entry->bytes;
        if (learn)
            entry->bytes = bytes;
        learnt = *entry;
    }
    if (known && vhandle_is(handle))
        self.longest_bytes = max_u64(self.longest_bytes, bytes);
    else if (known && entry && !(entry->flags & FLAG_ALLOCATOR))
        self.longest_lent_bytes = max_u64(self.longest_lent_bytes, bytes);
    lock_give(&self.lock);
    if (!known) {
        figure_add(&store_file()->process.internal_errors, 1);
        return false;
    }
    if (learn)
        count(&learnt, true);
    take_from_ahead(bytes);
    if (!vhandle_is(handle))
        call_reached_driver();
    vmm_pages_changed(address, bytes, true);
    return true;
}

/* The lock is held. */
static void move(struct hashmap *from, uint64_t key, struct hashmap *to, uint64_t new_key) {
    struct hashmap_entry mapping;
    if (!hashmap_take(from, key, &mapping))
        return;
    mapping.key = new_key;
    mapping.context = key;
    if (!hashmap_put(to, &mapping, NULL))
        figure_add(&store_file()->process.internal_errors, 1);
}

/* Taken out before the call, as everything: another thread may map the addresses anew before this
 * one hears that they are free. */
struct vmm_unmapping vmm_unmap_begin(uint64_t address, uint64_t bytes) {
    struct vmm_unmapping unmapping = {.address = address, .bytes = bytes};
    struct hashmap_entry *mapping;
    if (!recording_is_on())
        return unmapping;
    lock_take(&self.lock);
    unmapping.first = self.tickets + 1;
    for (uint64_t at = address; at - address < bytes; unmapping.count++) {
        if (!(mapping = hashmap_find(&self.mappings, at)) || !mapping->bytes)
            break;
        uint64_t next = at + mapping->bytes;
        move(&self.mappings, at, &self.leaving, ++self.tickets);
        at = next;
    }
    lock_give(&self.lock);
    vmm_pages_changed(address, bytes, false);
    return unmapping;
}

void vmm_unmap_abort(const struct vmm_unmapping *unmapping) {
    if (!recording_is_on())
        return;
    lock_take(&self.lock);
    for (uint64_t i = 0; i < unmapping->count; i++) {
        struct hashmap_entry *leaving = hashmap_find(&self.leaving, unmapping->first + i);
        if (leaving)
            move(&self.leaving, leaving->key, &self.mappings, leaving->context);
    }
    lock_give(&self.lock);
    vmm_pages_changed(unmapping->address, unmapping->bytes, true);
}

/* Takes one mapping off its handle; the memory goes with the last one of a released handle. */
static bool unlink_mapping(uint64_t handle, struct hashmap_entry *physical) {
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (!entry)
        return false;
    if ((uint32_t)entry->link > 0)
        entry->link--;
    return entry->link == 0 && hashmap_take(&self.handles, handle, physical);
}

void vmm_unmap_commit(const struct vmm_unmapping *unmapping) {
    bool reached = !unmapping->count; /* the driver */
    if (!recording_is_on())
        return;
    for (uint64_t i = 0; i < unmapping->count; i++) {
        struct hashmap_entry mapping = {0}, physical;
        lock_take(&self.lock);
        bool known = hashmap_take(&self.leaving, unmapping->first + i, &mapping);
        bool gone = known && unlink_mapping(mapping.link, &physical);
        lock_give(&self.lock);
        if (gone)
            count(&physical, false);
        reached = reached || !vhandle_is(mapping.link);
    }
    if (reached)
        call_reached_driver();
}

/* --- virtual handles --- */

bool vmm_handle_lookup(uint64_t handle, struct vmm_handle *out) {
    lock_take(&self.lock);
    const struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (entry)
        *out = (struct vmm_handle){.device = entry->device,
                                   .bytes = entry->bytes,
                                   .held = entry->link >= ONE_REFERENCE,
                                   .mapped = (uint32_t)entry->link > 0};
    lock_give(&self.lock);
    return entry != NULL;
}

/* There are thousands of mappings, and launchers of kernels ask about every argument: it is looked
 * for from page to page, for as many as the longest has. The lock is held. */
static struct hashmap_entry *mapping_around(uint64_t address, uint64_t longest_bytes) {
    uint64_t page = address - address % PAGE_BYTES;
    for (uint64_t back = 0; back < min_u64(longest_bytes, page); back += PAGE_BYTES) {
        struct hashmap_entry *found = hashmap_find(&self.mappings, page - back);
        if (found)
            return address - found->key < found->bytes ? found : NULL;
    }
    return NULL;
}

/* Of the mapping's handle. The lock is held. */
static unsigned device_of(const struct hashmap_entry *mapping) {
    const struct hashmap_entry *handle = hashmap_find(&self.handles, mapping->link);
    return handle ? handle->device : VRAMGC_MAX_DEVICES;
}

bool vmm_mapping_lookup(uint64_t address, struct vmm_mapping *out) {
    lock_take(&self.lock);
    const struct hashmap_entry *mapping = mapping_around(address, self.longest_bytes);
    mapping = mapping && vhandle_is(mapping->link) ? mapping : NULL;
    if (mapping)
        *out = (struct vmm_mapping){
            .handle = mapping->link,
            .device = device_of(mapping),
            .address = mapping->key,
            .bytes = mapping->bytes,
        };
    lock_give(&self.lock);
    return mapping != NULL;
}

unsigned vmm_lent(uint64_t address, unsigned *library) {
    unsigned lent = 0;
    lock_take(&self.lock);
    struct hashmap_entry *mapping = mapping_around(address, self.longest_lent_bytes);
    const struct hashmap_entry *of = mapping ? hashmap_find(&self.handles, mapping->link) : NULL;
    if (of && !(of->flags & (FLAG_ALLOCATOR | FLAG_IMPORTED))) {
        lent = VMM_LENT | mapping->flags | (of->flags & VMM_FOR_STEP);
        *library = of->flags >> LIBRARY_SHIFT;
        mapping->flags = 0;
    }
    lock_give(&self.lock);
    return lent;
}

bool vmm_is_row(uint64_t address, uint64_t bytes, unsigned device) {
    uint64_t end = address + bytes;
    lock_take(&self.lock);
    while (address < end) {
        const struct hashmap_entry *mapping = hashmap_find(&self.mappings, address);
        if (!mapping || !mapping->bytes || !vhandle_is(mapping->link) ||
            device_of(mapping) != device)
            break;
        address += mapping->bytes;
    }
    lock_give(&self.lock);
    return bytes && address == end;
}

struct inside {
    uint64_t address, bytes;
    bool any;
};

static bool look_inside(const struct hashmap_entry *entry, void *context) {
    struct inside *inside = context;
    inside->any =
        inside->any || (vhandle_is(entry->link) && entry->key - inside->address < inside->bytes);
    return false;
}

bool vmm_any_inside(uint64_t address, uint64_t bytes) {
    struct inside inside = {.address = address, .bytes = bytes};
    lock_take(&self.lock);
    hashmap_sweep(&self.mappings, look_inside, &inside);
    lock_give(&self.lock);
    return inside.any;
}

/* --- the end --- */

static bool has_no_handle(const struct hashmap_entry *entry, void *context) {
    (void)context;
    return !hashmap_find(&self.handles, entry->link);
}

void vmm_reset(unsigned device) {
    lock_take(&self.lock);
    hashmap_drop_device(&self.handles, device);
    hashmap_sweep(&self.mappings, has_no_handle, NULL);
    hashmap_sweep(&self.leaving, has_no_handle, NULL);
    lock_give(&self.lock);
}
