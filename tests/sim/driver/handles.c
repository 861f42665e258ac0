/* Opaque handles. A handle names a slot and its generation, so that a handle that was destroyed is
 * recognised for ever, which a recycled pointer would not allow. */
#include "driver.h"

#include <stdlib.h>

enum { TYPE_BITS = 4, SLOT_BITS = 24, FIRST_SLOT = 1 };

struct slot {
    void *object; /* NULL while the slot is free. */
    uint32_t generation;
    uint32_t next_free;
    enum handle_type type;
};

static struct {
    struct slot *slots;
    uint32_t count, capacity, first_free;
} table = {.count = FIRST_SLOT};

static uint32_t slot_take(void) {
    if (table.first_free != 0) {
        uint32_t slot = table.first_free;
        table.first_free = table.slots[slot].next_free;
        return slot;
    }
    if (table.count >= table.capacity) {
        table.capacity = table.capacity == 0 ? 256 : table.capacity * 2;
        table.slots = realloc(table.slots, table.capacity * sizeof *table.slots);
    }
    table.slots[table.count] = (struct slot){.generation = 1};
    return table.count++;
}

uintptr_t handle_make(enum handle_type type, void *object) {
    uint32_t number = slot_take();
    struct slot *slot = &table.slots[number];
    slot->object = object;
    slot->type = type;
    return ((uintptr_t)slot->generation << (SLOT_BITS + TYPE_BITS)) |
           ((uintptr_t)number << TYPE_BITS) | type;
}

static struct slot *slot_of(uintptr_t handle) {
    uint32_t number = (uint32_t)(handle >> TYPE_BITS) & ((1u << SLOT_BITS) - 1);
    if (number < FIRST_SLOT || number >= table.count)
        return NULL;
    struct slot *slot = &table.slots[number];
    bool same = slot->object != NULL && slot->generation == handle >> (SLOT_BITS + TYPE_BITS) &&
                slot->type == (handle & ((1u << TYPE_BITS) - 1));
    return same ? slot : NULL;
}

void *handle_get(uintptr_t handle, enum handle_type type) {
    struct slot *slot = slot_of(handle);
    return slot != NULL && slot->type == type ? slot->object : NULL;
}

void handle_drop(uintptr_t handle) {
    struct slot *slot = slot_of(handle);
    if (slot == NULL)
        return;
    slot->object = NULL;
    slot->generation = (slot->generation + 1) & 0x7ffff; /* Keeps a handle within 47 bits. */
    slot->next_free = table.first_free;
    table.first_free = (uint32_t)(slot - table.slots);
}

void handle_each(enum handle_type type, void (*visit)(void *object, void *data), void *data) {
    for (uint32_t i = FIRST_SLOT; i < table.count; i++)
        if (table.slots[i].object != NULL && table.slots[i].type == type)
            visit(table.slots[i].object, data);
}
