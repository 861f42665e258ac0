/* make_file.h: statistics files with chosen content, for tests: what the library would have written
 * had it seen certain things. The content is invented; the layout is the real one. */
#ifndef MAKE_FILE_H
#define MAKE_FILE_H

#include <stdbool.h>

#include "vramgc_format.h"

/* Fills *file. Scenarios: plain, fragmented, full, two-devices, unknown, observe, compact, others,
 * hostile (every text unterminated, counts huge, numbers out of range), run:36000:40:1:oom
 * (make_file_states.c). False: there is no such scenario.
 */
bool make_file(struct vramgc_file *file, const char *scenario);

#endif
