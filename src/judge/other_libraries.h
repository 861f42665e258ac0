/* other_libraries.h: libraries other than PyTorch's allocator that hold memory of a device. */
#pragma once

#include "read/stats_file.h"

/* The name of its file; NULL: not known. */
const char *library_name(const struct vramgc_file *file, uint64_t index);

/* The one that held, at its own peak, more than half of what all of them held at theirs; NULL: none
 * did, or it is not known. */
const char *library_of_most(const struct vramgc_file *file, const struct vramgc_device *device);

/* Whether what the library held is worth a line beside what all of them did. */
bool library_shows(const struct vramgc_device *device, uint64_t index);
