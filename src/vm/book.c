/* book.c: see book.h. It must keep apart what is just leaving from what comes by the same number.
 */
#include "vm/book.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "vramgc_format.h"

/* The link of a handle counts its references in the upper half, its mappings in the lower. */
#define ONE_REFERENCE ((uint64_t)1 << 32)

/* Handles released while still mapped get a key of our own, and mappings that are being unmapped:
 * the driver may give the number out again. Real handles and addresses do not have this bit. */
#define OURS ((uint64_t)1 << 63)

static struct hashmap_entry first_handles[1024], first_mappings[1024], first_ranges[64];

static struct {
    struct lock lock;
    struct hashmap handles;  /* handle -> bytes, device, link: references and mappings */
    struct hashmap mappings; /* address -> bytes, link: handle; leaving: ticket, context: address */
    struct hashmap ranges;   /* address -> bytes, device, class: engine */
    uint64_t orphans, tickets;
    uint64_t longest_bytes; /* of all mappings of virtual handles so far; of others' */
    uint64_t longest_lent_bytes;
    _Atomic uint64_t largest_range_bytes;
} self = {.handles = HASHMAP_IN(first_handles),
          .mappings = HASHMAP_IN(first_mappings),
          .ranges = HASHMAP_IN(first_ranges)};
CHILD_OPENS(self.lock);

/* --- handles --- */

static struct book_handle handle_of(const struct hashmap_entry *entry) {
    return (struct book_handle){.handle = entry->key,
                                .bytes = entry->bytes,
                                .device = entry->device,
                                .flags = entry->flags,
                                .references = (uint32_t)(entry->link / ONE_REFERENCE),
                                .mappings = (uint32_t)entry->link};
}

bool book_add(const struct book_handle *made) {
    struct hashmap_entry entry = {.key = made->handle,
                                  .bytes = made->bytes,
                                  .link = ONE_REFERENCE,
                                  .device = (uint16_t)made->device,
                                  .flags = (uint16_t)made->flags};
    LOCKED(&self.lock);
    return hashmap_put(&self.handles, &entry, NULL);
}

/* The lock is held. */
static void add_reference(struct hashmap_entry *entry) {
    if (entry)
        entry->link += ONE_REFERENCE;
}

bool book_find(uint64_t handle, struct book_handle *out) {
    LOCKED(&self.lock);
    const struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    if (entry)
        *out = handle_of(entry);
    return entry != NULL;
}

/* The handle by its new name; NULL: it is not known. The lock is held. */
static struct hashmap_entry *rename_handle(uint64_t from, uint64_t to) {
    struct hashmap_entry entry;
    if (!hashmap_take(&self.handles, from, &entry))
        return NULL;
    for (EACH_ENTRY(mapping, &self.mappings))
        mapping->link = mapping->link == from ? to : mapping->link;
    entry.key = to;
    hashmap_put(&self.handles, &entry, NULL); /* in the place that was just left */
    return hashmap_find(&self.handles, to);
}

/* Where there are few, or seldom. The lock is held. */
static struct hashmap_entry *entry_around(struct hashmap *map, uint64_t address) {
    struct hashmap_entry *found = hashmap_find(map, address);
    if (found)
        return found;
    for (EACH_ENTRY(entry, map))
        if (address - entry->key < entry->bytes)
            return entry;
    return NULL;
}

/* The driver may have given an orphan a new number. */
bool book_retain(uint64_t handle, uint64_t address) {
    LOCKED(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    const struct hashmap_entry *mapping =
        entry || !address ? NULL : entry_around(&self.mappings, address);
    if (mapping)
        entry = rename_handle(mapping->link, handle);
    add_reference(entry);
    return entry != NULL;
}

/* A release cannot fail half-way, but it can be refused; then the reference is put back. */
struct book_release book_release_begin(uint64_t handle) {
    struct book_release release = {.known = false};
    LOCKED(&self.lock);
    struct hashmap_entry *found = hashmap_find(&self.handles, handle);
    if (found && found->link >= ONE_REFERENCE) {
        found->link -= ONE_REFERENCE;
        release.known = true;
        release.of = handle_of(found);
        release.gone = found->link == 0;
        if (release.gone)
            hashmap_take(&self.handles, handle, NULL);
        else if (!release.of.references && !vhandle_is(handle))
            rename_handle(handle, release.orphan = OURS | ++self.orphans);
    }
    return release;
}

bool book_release_abort(const struct book_release *release) {
    if (release->gone)
        return book_add(&release->of);
    LOCKED(&self.lock);
    if (release->orphan)
        add_reference(rename_handle(release->orphan, release->of.handle));
    else if (release->known)
        add_reference(hashmap_find(&self.handles, release->of.handle));
    return true;
}

/* --- mappings --- */

bool book_map(uint64_t address, uint64_t bytes, uint64_t handle, struct book_handle *learnt) {
    struct hashmap_entry mapping = {
        .key = address, .bytes = bytes, .link = handle, .flags = BOOK_FRESH};
    *learnt = (struct book_handle){0};
    LOCKED(&self.lock);
    bool added = hashmap_put(&self.mappings, &mapping, NULL);
    struct hashmap_entry *entry = added ? hashmap_find(&self.handles, handle) : NULL;
    if (entry)
        entry->link++;
    if (entry && entry->flags & BOOK_IMPORTED && !entry->bytes) {
        entry->bytes = bytes;
        *learnt = handle_of(entry);
    }
    if (added && vhandle_is(handle))
        self.longest_bytes = max_u64(self.longest_bytes, bytes);
    else if (entry && !(entry->flags & BOOK_ALLOCATOR))
        self.longest_lent_bytes = max_u64(self.longest_lent_bytes, bytes);
    return added;
}

/* The lock is held. */
static void move_mapping(uint64_t from, uint64_t to) {
    struct hashmap_entry mapping;
    if (!hashmap_take(&self.mappings, from, &mapping))
        return;
    mapping.key = to;
    mapping.context = from;
    hashmap_put(&self.mappings, &mapping, NULL); /* in the place that was just left */
}

/* Taken out before the call, as everything: another thread may map the addresses anew before this
 * one hears that they are free. */
struct book_unmapping book_unmap_begin(uint64_t address, uint64_t bytes) {
    struct book_unmapping unmapping = {.address = address, .bytes = bytes};
    LOCKED(&self.lock);
    unmapping.first = OURS | (self.tickets + 1);
    for (uint64_t at = address; at - address < bytes; unmapping.count++) {
        const struct hashmap_entry *mapping = hashmap_find(&self.mappings, at);
        if (!mapping || !mapping->bytes)
            break;
        uint64_t next = at + mapping->bytes;
        move_mapping(at, OURS | ++self.tickets);
        at = next;
    }
    return unmapping;
}

void book_unmap_abort(const struct book_unmapping *unmapping) {
    LOCKED(&self.lock);
    for (uint64_t i = 0; i < unmapping->count; i++) {
        const struct hashmap_entry *leaving = hashmap_find(&self.mappings, unmapping->first + i);
        if (leaving)
            move_mapping(leaving->key, leaving->context);
    }
}

/* The memory goes with the last mapping of a released handle. */
uint64_t book_unmapped(uint64_t ticket, struct book_handle *gone) {
    struct hashmap_entry mapping = {0}, *entry = NULL;
    *gone = (struct book_handle){0};
    LOCKED(&self.lock);
    if (hashmap_take(&self.mappings, ticket, &mapping))
        entry = hashmap_find(&self.handles, mapping.link);
    if (entry && (uint32_t)entry->link > 0)
        entry->link--;
    if (entry && entry->link == 0) {
        *gone = handle_of(entry);
        hashmap_take(&self.handles, mapping.link, NULL);
    }
    return mapping.link;
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
static unsigned mapping_device(const struct hashmap_entry *mapping) {
    const struct hashmap_entry *handle = hashmap_find(&self.handles, mapping->link);
    return handle ? handle->device : VRAMGC_MAX_DEVICES;
}

bool book_mapping_at(uint64_t address, struct book_mapping *out) {
    LOCKED(&self.lock);
    const struct hashmap_entry *mapping = mapping_around(address, self.longest_bytes);
    mapping = mapping && vhandle_is(mapping->link) ? mapping : NULL;
    if (mapping)
        *out = (struct book_mapping){mapping->link, mapping_device(mapping), mapping->key,
                                     mapping->bytes};
    return mapping != NULL;
}

unsigned book_lent(uint64_t address, unsigned *library) {
    unsigned lent = 0;
    LOCKED(&self.lock);
    struct hashmap_entry *mapping = mapping_around(address, self.longest_lent_bytes);
    const struct hashmap_entry *of = mapping ? hashmap_find(&self.handles, mapping->link) : NULL;
    if (of && !(of->flags & (BOOK_ALLOCATOR | BOOK_IMPORTED))) {
        lent = BOOK_LENT | mapping->flags | (of->flags & BOOK_FOR_STEP);
        *library = of->flags >> BOOK_LIBRARY_SHIFT;
        mapping->flags = 0;
    }
    return lent;
}

uint64_t book_address_of(uint64_t handle) {
    LOCKED(&self.lock);
    for (EACH_ENTRY(mapping, &self.mappings))
        if (mapping->link == handle)
            return mapping->key;
    return 0;
}

bool book_is_row(uint64_t address, uint64_t bytes, unsigned device) {
    uint64_t end = address + bytes;
    LOCKED(&self.lock);
    while (address < end) {
        const struct hashmap_entry *mapping = hashmap_find(&self.mappings, address);
        if (!mapping || !mapping->bytes || !vhandle_is(mapping->link) ||
            mapping_device(mapping) != device)
            break;
        address += mapping->bytes;
    }
    return bytes && address == end;
}

/* --- ranges --- */

static struct book_range range_from(const struct hashmap_entry *entry) {
    return (struct book_range){entry->key, entry->bytes, entry->device, entry->class};
}

bool book_range_put(const struct book_range *range) {
    struct hashmap_entry entry = {.key = range->address,
                                  .bytes = range->bytes,
                                  .class = range->engine,
                                  .device = (uint16_t)range->device};
    LOCKED(&self.lock);
    bool added = hashmap_put(&self.ranges, &entry, NULL);
    if (added && range->bytes > self.largest_range_bytes)
        self.largest_range_bytes = range->bytes;
    return added;
}

struct book_range book_range_take(uint64_t address) {
    struct book_range range = {.address = address};
    struct hashmap_entry entry;
    LOCKED(&self.lock);
    if (hashmap_take(&self.ranges, address, &entry))
        range = range_from(&entry);
    return range;
}

bool book_range_claim(uint64_t address, uint64_t bytes, unsigned engine, struct book_range *range) {
    LOCKED(&self.lock);
    struct hashmap_entry *entry = entry_around(&self.ranges, address);
    if (!entry || address + bytes > entry->key + entry->bytes)
        return false;
    entry->class = entry->class == VRAMGC_MAX_DEVICES ? engine : entry->class;
    *range = range_from(entry);
    return range->engine == engine;
}

uint64_t book_range_largest_bytes(void) {
    return atomic_load_explicit(&self.largest_range_bytes, memory_order_relaxed);
}

/* --- the end --- */

static bool has_no_handle(const struct hashmap_entry *entry, void *context) {
    (void)context;
    return !hashmap_find(&self.handles, entry->link);
}

void book_reset(unsigned device) {
    LOCKED(&self.lock);
    hashmap_drop_device(&self.handles, device);
    hashmap_sweep(&self.mappings, has_no_handle, NULL);
    for (EACH_ENTRY(range, &self.ranges)) { /* the heap and the engine it was in are no more */
        range->class = range->class == device ? VRAMGC_MAX_DEVICES : range->class;
        range->device = range->device == device ? VRAMGC_MAX_DEVICES : range->device;
    }
}
