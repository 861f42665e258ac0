/* device_table.h: the part of the report about one card: who had it, the allocator's figures, and
 * the graph. */
#ifndef DEVICE_TABLE_H
#define DEVICE_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "cli/stats_file.h"

void device_table_write(FILE *out, const struct stats_file *record, size_t index);

/* The latest request for memory of the device that was not granted; NULL: there is none. */
const struct vramgc_refusal *device_latest_refusal(const struct stats_file *record, size_t index);

/* The head of the last column: the figures as they were before the program freed what it had, or
 * as they are. */
const char *device_last_moment(const struct stats_file *record);

#endif
