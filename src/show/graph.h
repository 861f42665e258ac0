/* graph.h: the timeline of a device, as text. */
#ifndef GRAPH_H
#define GRAPH_H

#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"

/* Nothing when there are too few points. */
void graph_write(FILE *out, const struct stats_file *record, const struct vramgc_device *device,
                 size_t index);

#endif
