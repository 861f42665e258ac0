/* The table of host symbols: open addressing, doubled when half full. Entries of an unloaded object
 * stay, marked through their fat binary, until the same address is registered again. */
#include "registry.h"

#include <pthread.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    struct host_symbol *slots;
    size_t capacity;
    size_t count;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

void registry_lock(void) {
    pthread_mutex_lock(&registry.lock);
}

void registry_unlock(void) {
    pthread_mutex_unlock(&registry.lock);
}

static struct host_symbol *slot_of(struct host_symbol *slots, size_t capacity, const void *host) {
    size_t hash = (size_t)(((uintptr_t)host >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20);
    size_t i = hash & (capacity - 1);
    while (slots[i].host && slots[i].host != host)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

struct host_symbol *registry_find(const void *host) {
    if (registry.capacity == 0 || !host)
        return NULL;
    struct host_symbol *slot = slot_of(registry.slots, registry.capacity, host);
    if (!slot->host || (slot->binary && slot->binary->unregistered))
        return NULL;
    return slot;
}

static bool grow(void) {
    size_t capacity = registry.capacity ? registry.capacity * 2 : 1024;
    struct host_symbol *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < registry.capacity; i++) {
        if (registry.slots[i].host)
            *slot_of(slots, capacity, registry.slots[i].host) = registry.slots[i];
    }
    free(registry.slots);
    registry.slots = slots;
    registry.capacity = capacity;
    return true;
}

bool registry_add(struct host_symbol symbol) {
    if (registry.count * 2 >= registry.capacity && !grow())
        return false;
    struct host_symbol *slot = slot_of(registry.slots, registry.capacity, symbol.host);
    if (!slot->host)
        registry.count++;
    *slot = symbol;
    return true;
}
