/* due.h: the reclaims that a hook cannot do: having PyTorch empty its cache through Python, which
 * may take long, giving back pages that somebody asked for, and trimming pools. For the first of
 * our threads (background_thread.h). */
#pragma once

#include "track/device.h"

/* Asks the driver what is free, and how much a pool keeps. */
void due_read_memory(struct device *device);

/* Has the policy decide whether idle memory goes back now, and gives it back. changed_ns: when a
 * block was last seen to be taken or freed. Not in a capture. */
void due_look(struct device *device, uint64_t changed_ns, uint64_t now);
