/* timeline.h: a device's timeline with what is known exactly of moments between its points: each
 * refused request, and a peak that was reached after the last look. */
#pragma once

#include <stddef.h>

#include "vramgc_format.h"

/* Once, when a file has been read, of which these are the refusals. Text, page and exports then
 * show the same. */
void timeline_complete(struct vramgc_file *file, const struct vramgc_refusal *const *refusals,
                       size_t count, uint64_t elapsed_ns);
