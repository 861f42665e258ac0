/* flush.h: what the flush thread, the first of our threads (background_thread.h), gives back: by
 * having PyTorch empty its cache through Python, which may take long; pages that somebody asked
 * for; pools; and memory of the host that nobody uses. */
#pragma once

#include "track/device.h"

/* Asks the driver what is free, and how much a pool keeps. */
void flush_read_memory(struct device *device);

/* Has the policy decide whether idle memory goes back now, and gives it back. changed_ns: when a
 * block was last seen to be taken or freed. Not in a capture. */
void flush_look(struct device *device, uint64_t changed_ns, uint64_t now);

/* Host memory goes back while the program rests: what its allocator keeps, and PyTorch's cache of
 * page-locked memory. A few times a second. Returns after how long at most the next look is due;
 * UINT64_MAX: none is. */
uint64_t flush_host_look(uint64_t now_ns);
