/* hashmap.h: a table from a 64-bit key (an address, a handle, an event) to what is known of it.
 * Open addressing in pages of our own; grows when half full and never shrinks. Pure, takes no lock:
 * the owner does. Key 0 is not allowed. No pointer may be NULL unless said. */
#ifndef HASHMAP_H
#define HASHMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger_entry {
    uint64_t key;
    uint64_t bytes;
    uint64_t link;    /* a second key or a count, as the owner likes */
    uint64_t context; /* with which it goes, or 0 */
    uint32_t class;
    uint16_t device;
    uint16_t flags;
};

struct ledger {
    struct ledger_entry *entries;
    size_t capacity, count;
};

/* Puts the entry, over an older one with the same key: *replaced (may be NULL) tells. False: no
 * memory for the books, nothing changed. */
bool ledger_put(struct ledger *ledger, const struct ledger_entry *entry, bool *replaced);

/* NULL when unknown; valid until the next put or take. */
struct ledger_entry *ledger_find(const struct ledger *ledger, uint64_t key);

/* Removes; the entry is copied to *out, which may be NULL. False: unknown. */
bool ledger_take(struct ledger *ledger, uint64_t key, struct ledger_entry *out);

/* Removes every entry that drop says yes to. */
void ledger_sweep(struct ledger *ledger,
                  bool (*drop)(const struct ledger_entry *entry, void *context), void *context);

/* Removes every entry of the device. */
void ledger_drop_device(struct ledger *ledger, unsigned device);

#endif
