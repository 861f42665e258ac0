/* trim.h: gives back what the driver's stream-ordered pools keep (track/mempool.h). The driver can
 * give it back, or use it in another stream, only once the GPU is seen to be past it. */
#pragma once

#include "track/device.h"

/* The pool keeps so much that the program has not needed for a cool-down: it goes back above the
 * threshold. Asks the driver. For our own thread. */
uint64_t trim_idle_bytes(struct device *device, uint64_t now_ns);

/* For our own thread: waits for the GPU and trims the pool, with all above the threshold only of
 * what trim_idle_bytes tells; the action, with its reason, is told. Whether anything was done. */
bool trim_mempool(struct device *device, struct vramgc_action action);

/* True: free and idle bytes together are enough: else nothing helps. Asks the driver. */
bool trim_would_do(struct device *device, uint64_t idle_bytes, uint64_t bytes);

/* The driver has refused a thread of the program so many bytes: where the pool's idle ones would
 * make up for them, waits for the GPU and trims the pool, as PyTorch's native allocator does with
 * its cache before it gives up (mode observe: tells of it). The device's context is current.
 * True: it is worth asking again. */
bool trim_after_oom(struct device *device, uint64_t bytes);

/* comfy-aimdo, which asks what is free, drops weights where that is little: above the threshold
 * PyTorch's idle memory goes before them. For each such question. */
void trim_before_weights(const void *caller);
