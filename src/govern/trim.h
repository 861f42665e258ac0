/* trim.h: the driver's stream-ordered pools: what the current one of a device keeps beside what is
 * allocated from it, and giving that back. What was freed counts as kept from the call on; the
 * driver can give it back, or use it in another stream, only once the GPU is seen to be past it. */
#ifndef TRIM_H
#define TRIM_H

#include "track/device.h"

/* The bytes that the pool keeps, which belong to this process as well and are counted so. 0: none,
 * or no pool is in use. Asks the driver. */
uint64_t pools_look(struct device *device);

/* The program has trimmed that pool: what it keeps now, and what is free, is asked of the driver,
 * but for a capture. */
void pools_trimmed(CUmemoryPool pool);

/* For our own thread: waits for the GPU and trims the pool; the action, with its reason, is told.
 * Whether anything was done. */
bool pools_trim(struct device *device, struct vramgc_action action);

/* The driver has refused a thread of the program so many bytes: where the pool's idle ones would
 * make up for them, waits for the GPU and trims the pool, as PyTorch's native allocator does with
 * its cache before it gives up (mode observe: tells of it). The device's context is current.
 * Whether it is worth asking again. */
bool pools_rescue(struct device *device, uint64_t bytes);

#endif
