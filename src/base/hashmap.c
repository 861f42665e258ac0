/* hashmap.c: see hashmap.h. Linear probing; a removal moves later entries back, so that no marks of
 * removed ones are needed and look-ups stay short for ever. */
#include "base/hashmap.h"
#include "base/base.h"

/* 32 KiB; it doubles. */
enum { FIRST_CAPACITY = 1024 };

static size_t home(const struct hashmap *hashmap, uint64_t key) {
    return (size_t)((key * 0x9E3779B97F4A7C15u) >> 20) & (hashmap->capacity - 1);
}

static struct hashmap_entry *entry_slot(const struct hashmap *hashmap, uint64_t key) {
    size_t i = home(hashmap, key);
    while (hashmap->entries[i].key && hashmap->entries[i].key != key)
        i = (i + 1) & (hashmap->capacity - 1);
    return &hashmap->entries[i];
}

static bool hashmap_grow(struct hashmap *hashmap) {
    struct hashmap larger = {.capacity =
                                 hashmap->capacity ? hashmap->capacity * 2 : FIRST_CAPACITY};
    larger.entries = memory_map(larger.capacity * sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < hashmap->capacity; i++)
        if (hashmap->entries[i].key)
            *entry_slot(&larger, hashmap->entries[i].key) = hashmap->entries[i];
    larger.count = hashmap->count;
    if (!hashmap->lent)
        memory_unmap(hashmap->entries, hashmap->capacity * sizeof *hashmap->entries);
    *hashmap = larger;
    return true;
}

bool hashmap_put(struct hashmap *hashmap, const struct hashmap_entry *entry, bool *replaced) {
    if (!entry->key || (hashmap->count * 2 >= hashmap->capacity && !hashmap_grow(hashmap) &&
                        hashmap->count * 8 >= hashmap->capacity * 7))
        return false;
    struct hashmap_entry *slot = entry_slot(hashmap, entry->key);
    if (replaced)
        *replaced = slot->key != 0;
    hashmap->count += slot->key == 0;
    *slot = *entry;
    return true;
}

struct hashmap_entry *hashmap_find(const struct hashmap *hashmap, uint64_t key) {
    if (!hashmap->count || !key)
        return NULL;
    struct hashmap_entry *slot = entry_slot(hashmap, key);
    return slot->key ? slot : NULL;
}

/* Closes the gap at slot i: entries that probing would no longer reach move back. */
static void close_gap(struct hashmap *hashmap, size_t i) {
    size_t mask = hashmap->capacity - 1;
    for (size_t j = (i + 1) & mask; hashmap->entries[j].key; j = (j + 1) & mask) {
        size_t wanted = home(hashmap, hashmap->entries[j].key);
        if (((j - wanted) & mask) < ((j - i) & mask))
            continue;
        hashmap->entries[i] = hashmap->entries[j];
        i = j;
    }
    hashmap->entries[i].key = 0;
}

bool hashmap_take(struct hashmap *hashmap, uint64_t key, struct hashmap_entry *out) {
    struct hashmap_entry *slot = hashmap_find(hashmap, key);
    if (!slot)
        return false;
    if (out)
        *out = *slot;
    close_gap(hashmap, (size_t)(slot - hashmap->entries));
    hashmap->count--;
    return true;
}

void hashmap_sweep(struct hashmap *hashmap,
                   bool (*drop)(const struct hashmap_entry *entry, void *context), void *context) {
    for (size_t i = 0; i < hashmap->capacity;) {
        uint64_t key = hashmap->entries[i].key;
        if (key && drop(&hashmap->entries[i], context))
            hashmap_take(hashmap, key, NULL); /* something may have moved here: look again */
        else
            i++;
    }
}

static bool is_of_device(const struct hashmap_entry *entry, void *context) {
    return entry->device == *(const unsigned *)context;
}

void hashmap_drop_device(struct hashmap *hashmap, unsigned device) {
    hashmap_sweep(hashmap, is_of_device, &device);
}
