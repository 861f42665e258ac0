/* graph.h: the timeline of a device, as text, and below it whose live memory was. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"

/* Nothing when there are too few points. */
void graph_write(FILE *out, const struct stats_file *record, const struct vramgc_device *device,
                 size_t index);

/* Whose live memory was at each time, by the same columns: a line for each phase, or each function.
 * Nothing where nobody is known. */
void graph_who(FILE *out, const struct stats_file *record, const struct vramgc_device *device,
               bool by_function);
