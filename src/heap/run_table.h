/* run_table.h: finds a run by its first address: a hash whose buckets are chains through the runs
 * themselves, so that it takes little room in the processor's cache, and adding and taking out need
 * no search beyond one short chain. At least as many buckets as runs; doubled when there would be
 * fewer. Memory comes from mmap. Takes no lock. */
#pragma once

#include "heap/run.h"

/* All zero at the start: an empty table without memory. */
struct table {
    struct run **buckets;
    size_t capacity; /* buckets: a power of two, or 0 */
    unsigned shift;  /* 64 - log2(capacity) */
    size_t count;
};

/* Makes sure that `count` more runs fit. False when out of memory; nothing is lost then. */
bool table_reserve(struct table *table, size_t count);

/* Multiplication by 2^64 / golden ratio, upper bits: spreads the regular steps in which segments
 * and blocks are placed (Knuth, The Art of Computer Programming 3, section 6.4). Folding first
 * keeps steps that are bad for the one constant from lining up over a whole address space. */
static inline struct run **table_bucket(const struct table *table, uint64_t address) {
    uint64_t folded = address ^ address >> 32;
    return &table->buckets[(folded * UINT64_C(0x9E3779B97F4A7C15)) >> table->shift];
}

/* NULL when nothing begins at the address. */
static inline struct run *table_find(const struct table *table, uint64_t address) {
    if (table->capacity == 0)
        return NULL;
    struct run *run = *table_bucket(table, address);
    while (run && run->address != address)
        run = run->chain;
    return run;
}

/* table_reserve must have made room, and no run of this address may be in the table. The address
 * must not change while the run is in the table. */
static inline void table_insert(struct table *table, struct run *run) {
    struct run **bucket = table_bucket(table, run->address);
    run->chain = *bucket;
    *bucket = run;
    table->count++;
}

/* The run must be in the table. */
static inline void table_erase(struct table *table, const struct run *run) {
    struct run **link = table_bucket(table, run->address);
    while (*link != run)
        link = &(*link)->chain;
    *link = run->chain;
    table->count--;
}

void table_release(struct table *table);
