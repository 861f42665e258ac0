/* hashmap.h: a table from a 64-bit key (an address, a handle, an event) to what is known of it.
 * Open addressing in pages of our own; grows when half full and never shrinks; where there is no
 * memory for that it goes on until it is nearly full. Pure, takes no lock: the owner does. Key 0 is
 * not allowed. No pointer may be NULL unless said. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hashmap_entry {
    uint64_t key;
    uint64_t bytes;
    uint64_t link;    /* a second key or a count, as the owner likes */
    uint64_t context; /* with which it goes, or 0 */
    uint32_t class;
    uint16_t device;
    uint16_t flags;
};

struct hashmap {
    struct hashmap_entry *entries;
    size_t capacity, count;
    bool lent; /* the entries are their owner's */
};

/* Books that are there before the first entry comes. entries: a static array, zeroed, of as many as
 * a power of two. */
#define HASHMAP_IN(entries)                                                                        \
    { (entries), sizeof(entries) / sizeof *(entries), 0, true }

/* Puts the entry, over an older one with the same key: *replaced (may be NULL) tells. False: no
 * memory for the books, nothing changed. */
bool hashmap_put(struct hashmap *hashmap, const struct hashmap_entry *entry, bool *replaced);

/* NULL when unknown; valid until the next put or take. */
struct hashmap_entry *hashmap_find(const struct hashmap *hashmap, uint64_t key);

/* Removes; the entry is copied to *out, which may be NULL. False: unknown. */
bool hashmap_take(struct hashmap *hashmap, uint64_t key, struct hashmap_entry *out);

/* Removes every entry that drop says yes to. */
void hashmap_sweep(struct hashmap *hashmap,
                   bool (*drop)(const struct hashmap_entry *entry, void *context), void *context);

/* The entries: for (EACH_ENTRY(entry, &map)), while none comes or goes. */
static inline struct hashmap_entry *hashmap_next(const struct hashmap *hashmap,
                                                 const struct hashmap_entry *before) {
    size_t i = before ? (size_t)(before - hashmap->entries) + 1 : 0;
    while (i < hashmap->capacity && !hashmap->entries[i].key)
        i++;
    return i < hashmap->capacity ? &hashmap->entries[i] : NULL;
}
#define EACH_ENTRY(each, of)                                                                       \
    struct hashmap_entry *each = hashmap_next(of, NULL);                                           \
    each;                                                                                          \
    each = hashmap_next(of, each)

/* Removes every entry of the device. */
void hashmap_drop_device(struct hashmap *hashmap, unsigned device);
