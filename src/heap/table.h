/* table.h: finds a run by its first address: a hash with open addressing and linear probing, at
 * most half full (a small one: a quarter), doubled when it would be fuller. Entries are taken out
 * by closing the gap, so it never fills up with tombstones. Memory comes from mmap. Takes no lock.
 */
#ifndef HEAP_TABLE_H
#define HEAP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run;

struct table_slot {
    uint64_t address;
    struct run *run; /* NULL: the slot is empty */
};

/* All zero at the start: an empty table without memory. */
struct table {
    struct table_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    unsigned shift;  /* 64 - log2(capacity) */
    size_t count;
};

/* Makes sure that `count` more entries fit. False when out of memory; nothing is lost then. */
bool table_reserve(struct table *table, size_t count);

/* Multiplication by 2^64 / golden ratio, upper bits: spreads the regular steps in which segments
 * and blocks are placed (Knuth, The Art of Computer Programming 3, section 6.4). Folding first
 * keeps steps that are bad for the one constant from lining up over a whole address space. */
static inline size_t table_home(const struct table *table, uint64_t address) {
    uint64_t folded = address ^ address >> 32;
    return (size_t)((folded * UINT64_C(0x9E3779B97F4A7C15)) >> table->shift);
}

static inline size_t table_slot_after(const struct table *table, size_t slot) {
    return (slot + 1) & (table->capacity - 1);
}

/* The slot that holds the address, or the empty one where it belongs. */
static inline size_t table_slot(const struct table *table, uint64_t address) {
    size_t slot = table_home(table, address);
    while (table->slots[slot].run && table->slots[slot].address != address)
        slot = table_slot_after(table, slot);
    return slot;
}

/* NULL when nothing begins at the address. */
static inline struct run *table_find(const struct table *table, uint64_t address) {
    if (table->capacity == 0)
        return NULL;
    return table->slots[table_slot(table, address)].run;
}

/* table_reserve must have made room, and the address must not be in the table. */
static inline void table_insert(struct table *table, uint64_t address, struct run *run) {
    table->slots[table_slot(table, address)] = (struct table_slot){address, run};
    table->count++;
}

/* The address must be in the table. */
void table_erase(struct table *table, uint64_t address);

void table_release(struct table *table);

#endif
