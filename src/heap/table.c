/* table.c: see table.h. Must not call malloc, directly or through libc. */
#include "heap/table.h"

#include "heap/nodes.h"

#define TABLE_FIRST_CAPACITY ((size_t)1024)

/* Up to here a quarter full at most, which makes for shorter searches; beyond, a sparse table would
 * cost more in cache misses than it saves. */
#define TABLE_SPARSE_CAPACITY ((size_t)16384)

/* Whether an entry found at `slot` may move back to `hole`: only if its home is not between. */
static bool may_fill(const struct table *table, size_t hole, size_t slot) {
    size_t mask = table->capacity - 1;
    size_t home = table_home(table, table->slots[slot].address);
    return ((slot - home) & mask) >= ((slot - hole) & mask);
}

void table_erase(struct table *table, uint64_t address) {
    size_t hole = table_slot(table, address);
    size_t slot = table_slot_after(table, hole);
    while (table->slots[slot].run) {
        if (may_fill(table, hole, slot)) {
            table->slots[hole] = table->slots[slot];
            hole = slot;
        }
        slot = table_slot_after(table, slot);
    }
    table->slots[hole].run = NULL;
    table->count--;
}

static unsigned log2_of(size_t power) {
    return (unsigned)__builtin_ctzll(power);
}

static bool grow_to(struct table *table, size_t capacity) {
    struct table larger = {.capacity = capacity, .shift = 64 - log2_of(capacity)};
    larger.slots = nodes_map(capacity * sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->slots[i].run)
            table_insert(&larger, table->slots[i].address, table->slots[i].run);
    table_release(table);
    *table = larger;
    return true;
}

static bool fits(size_t count, size_t capacity) {
    return count * (capacity > TABLE_SPARSE_CAPACITY ? 2 : 4) <= capacity;
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
    nodes_unmap(table->slots, table->capacity * sizeof *table->slots);
    *table = (struct table){0};
}
