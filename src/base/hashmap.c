/* hashmap.c: see hashmap.h. Linear probing; a removal moves later entries back, so that no marks of
 * removed ones are needed and look-ups stay short for ever. */
#include "base/hashmap.h"
#include "base/base.h"

enum { FIRST_CAPACITY = 1024 };

static size_t home(const struct ledger *ledger, uint64_t key) {
    return (size_t)((key * 0x9E3779B97F4A7C15u) >> 20) & (ledger->capacity - 1);
}

static struct ledger_entry *slot_of(const struct ledger *ledger, uint64_t key) {
    size_t i = home(ledger, key);
    while (ledger->entries[i].key && ledger->entries[i].key != key)
        i = (i + 1) & (ledger->capacity - 1);
    return &ledger->entries[i];
}

static bool grow(struct ledger *ledger) {
    struct ledger larger = {.capacity = ledger->capacity ? ledger->capacity * 2 : FIRST_CAPACITY};
    larger.entries = memory_map(larger.capacity * sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < ledger->capacity; i++)
        if (ledger->entries[i].key)
            *slot_of(&larger, ledger->entries[i].key) = ledger->entries[i];
    larger.count = ledger->count;
    memory_unmap(ledger->entries, ledger->capacity * sizeof *ledger->entries);
    *ledger = larger;
    return true;
}

bool ledger_put(struct ledger *ledger, const struct ledger_entry *entry, bool *replaced) {
    if (!entry->key || (ledger->count * 2 >= ledger->capacity && !grow(ledger)))
        return false;
    struct ledger_entry *slot = slot_of(ledger, entry->key);
    if (replaced)
        *replaced = slot->key != 0;
    ledger->count += slot->key == 0;
    *slot = *entry;
    return true;
}

struct ledger_entry *ledger_find(const struct ledger *ledger, uint64_t key) {
    if (!ledger->count || !key)
        return NULL;
    struct ledger_entry *slot = slot_of(ledger, key);
    return slot->key ? slot : NULL;
}

/* Closes the gap at slot i: entries that probing would no longer reach move back. */
static void close_gap(struct ledger *ledger, size_t i) {
    size_t mask = ledger->capacity - 1;
    for (size_t j = (i + 1) & mask; ledger->entries[j].key; j = (j + 1) & mask) {
        size_t wanted = home(ledger, ledger->entries[j].key);
        if (((j - wanted) & mask) < ((j - i) & mask))
            continue;
        ledger->entries[i] = ledger->entries[j];
        i = j;
    }
    ledger->entries[i].key = 0;
}

bool ledger_take(struct ledger *ledger, uint64_t key, struct ledger_entry *out) {
    struct ledger_entry *slot = ledger_find(ledger, key);
    if (!slot)
        return false;
    if (out)
        *out = *slot;
    close_gap(ledger, (size_t)(slot - ledger->entries));
    ledger->count--;
    return true;
}

void ledger_sweep(struct ledger *ledger,
                  bool (*drop)(const struct ledger_entry *entry, void *context), void *context) {
    for (size_t i = 0; i < ledger->capacity;) {
        uint64_t key = ledger->entries[i].key;
        if (key && drop(&ledger->entries[i], context))
            ledger_take(ledger, key, NULL); /* something may have moved here: look again */
        else
            i++;
    }
}

static bool is_of_device(const struct ledger_entry *entry, void *context) {
    return entry->device == *(const unsigned *)context;
}

void ledger_drop_device(struct ledger *ledger, unsigned device) {
    ledger_sweep(ledger, is_of_device, &device);
}
