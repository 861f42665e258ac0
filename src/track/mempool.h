/* mempool.h: the driver's stream-ordered pools: what the current one of a device keeps beside what
 * is allocated from it. What was freed counts as kept from the call on. */
#pragma once

#include "track/device.h"

/* The device's current pool, and what it kept after so many changes. pool NULL: not to be told. */
struct mempool_idle {
    CUmemoryPool pool;
    uint64_t reserved_bytes; /* all that it has of the device */
    uint64_t idle_bytes, changes;
};

/* Asks the driver. */
struct mempool_idle mempool_idle(const struct device *device);
bool mempool_in_use(const struct device *device);

/* The same, and what it keeps counts as held. */
struct mempool_idle mempool_account(struct device *device);

/* The bytes that the pool keeps, which belong to this process as well and are counted so. 0: none,
 * or no pool is in use. Asks the driver. */
uint64_t mempool_look(struct device *device);

/* How much of the driver's pools the program has; and has needed at most at once within so many
 * nanoseconds, or up to twice as many. The latter is for one thread, which asks again and again. */
uint64_t mempool_used(const struct device *device);
uint64_t mempool_needed(struct device *device, uint64_t now_ns, uint64_t within_ns);

/* After either has changed: how much was used at most of the driver's pools and of our own at one
 * moment. */
void mempool_note_together(struct device *device);

/* That mark is as of now. */
void mempool_reset_together(struct device *device);

/* The program has trimmed that pool: what it keeps now, and what is free, is asked of the driver,
 * but for a capture. */
void mempool_trimmed(CUmemoryPool pool);
