/* run_table.c: see run_table.h. Must not call malloc, directly or through libc. */
#include "heap/run_table.h"

#include "heap/nodes.h"

/* Two pages of the host's memory; it doubles. */
#define TABLE_FIRST_CAPACITY ((size_t)1024)

/* Up to here there are twice as many buckets as runs, which makes for shorter chains; beyond, the
 * cache misses of a larger table would cost more: 256 KiB are the least second-level cache that a
 * core of x86-64 has had since 2008. */
#define TABLE_SPARSE_CAPACITY ((size_t)32768)

static unsigned log2_of(size_t power) {
    return (unsigned)__builtin_ctzll(power);
}

static void move_chain(struct table *to, struct run *run) {
    while (run) {
        struct run *next = run->chain;
        table_insert(to, run);
        run = next;
    }
}

static bool grow_to(struct table *table, size_t capacity) {
    struct table larger = {.capacity = capacity, .shift = 64 - log2_of(capacity)};
    larger.buckets = nodes_map(capacity * sizeof(struct run *));
    if (!larger.buckets)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        move_chain(&larger, table->buckets[i]);
    table_release(table);
    *table = larger;
    return true;
}

static bool fits(size_t count, size_t capacity) {
    return capacity > TABLE_SPARSE_CAPACITY ? count <= capacity : 2 * count <= capacity;
}

bool table_reserve(struct table *table, size_t count) {
    size_t needed = table->count + count;
    if (fits(needed, table->capacity))
        return true;
    size_t capacity = table->capacity ? table->capacity : TABLE_FIRST_CAPACITY;
    while (!fits(needed, capacity))
        capacity *= 2;
    return grow_to(table, capacity);
}

void table_release(struct table *table) {
    nodes_unmap(table->buckets, table->capacity * sizeof(struct run *));
    *table = (struct table){0};
}
