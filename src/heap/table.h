/* table.h: finds a run by its first address: a hash with open addressing and linear probing, at
 * most half full, doubled when it would be fuller. Entries are taken out by closing the gap, so it
 * never fills up with tombstones. Memory comes from mmap. Takes no lock. */
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

/* NULL when nothing begins at the address. */
struct run *table_find(const struct table *table, uint64_t address);

/* table_reserve must have made room, and the address must not be in the table. */
void table_insert(struct table *table, uint64_t address, struct run *run);

/* The address must be in the table. */
void table_erase(struct table *table, uint64_t address);

void table_release(struct table *table);

#endif
