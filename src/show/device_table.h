/* device_table.h: the part of the report about one card: who had it, the allocator's figures, and
 * the graph. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"
#include "read/units.h"
#include "base/text.h"

/* With cudaMallocAsync PyTorch itself counts no out-of-memory, and its hooks tell of none: "-". */
struct figure show_ooms(const struct vramgc_file *file, uint64_t ooms);

enum { REFUSED_WORDS = 160 };

/* How many requests of the card were refused, and what became of them. */
void device_say_refused(struct text *text, const struct stats_file *record, size_t index);

/* Those of the program, and in mode compact those that vramgc made in their place. */
uint64_t all_driver_calls(const struct vramgc_device_stats *stats);

/* all: with what only few want to know. */
void device_table_write(FILE *out, const struct stats_file *record, size_t index, bool all);
