/* clean.h: makes the content of a statistics file harmless, whatever bytes it holds: texts end and
 * cannot steer a terminal, counts stay within their arrays; figures are not judged. And its
 * timeline whole, with what is known exactly of moments between two points. */
#pragma once

#include <stddef.h>

#include "vramgc_format.h"

/* file may not be NULL and is changed in place. */
void clean_file(struct vramgc_file *file);

/* Adds each refused request, and a peak that was reached after the last look. Once, when a file has
 * been read, of which these are the refusals: text, page and exports then show the same. */
void timeline_complete(struct vramgc_file *file, const struct vramgc_refusal *const *refusals,
                       size_t count, uint64_t elapsed_ns);
