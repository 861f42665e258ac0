/* device_table.h: the part of the report about one card: who had it, the allocator's figures, and
 * the graph. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"
#include "read/units.h"

/* With cudaMallocAsync PyTorch itself counts no out-of-memory, and its hooks tell of none: "-". */
struct figure show_ooms(const struct vramgc_file *file, uint64_t ooms);

/* Those of the program, and in mode compact those that vramgc made in their place. */
uint64_t all_driver_calls(const struct vramgc_device_stats *stats);

/* all: with what only few want to know. */
void device_table_write(FILE *out, const struct stats_file *record, size_t index, bool all);
