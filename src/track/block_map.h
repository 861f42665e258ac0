/* block_map.h: PyTorch's segments and blocks at an out-of-memory, in a file beside the statistics,
 * for those who want to see what lay where. */
#pragma once

#include "heap/heap.h"
#include "vramgc.h"

struct device;

/* A run as vramgc.h describes it. It may not be unmapped. */
struct vramgc_block block_map_entry(const struct heap_run *run);

/* Writes the map of the device if VRAMGC_SNAPSHOT_ON_OOM asks for it: there was no memory for so
 * many bytes. device may not be NULL, and its lock must not be held. */
void block_map_at_oom(struct device *device, uint64_t bytes);
