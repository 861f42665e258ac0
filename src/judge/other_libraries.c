/* other_libraries.c: see other_libraries.h. It shows what the file says, and judges nothing. */
#include "judge/other_libraries.h"
#include "base/base.h"

/* The least part of what all of them held at their peak: there are about eight lines then; and the
 * least that is worth one. */
enum { LEAST_PART = 8 };
#define LEAST_BYTES ((uint64_t)1 << 20)

const char *library_name(const struct vramgc_file *file, uint64_t index) {
    bool named = index > 0 && index < file->library_count && *file->libraries[index].name;
    return named ? file->libraries[index].name : NULL;
}

const char *library_of_most(const struct vramgc_file *file, const struct vramgc_device *device) {
    for (uint64_t i = 1; i < file->library_count; i++)
        if (device->of_libraries[i].peak > device->stats.other_bytes.peak / 2)
            return library_name(file, i);
    return NULL;
}

bool library_shows(const struct vramgc_device *device, uint64_t index) {
    uint64_t least = max_u64(device->stats.other_bytes.peak / LEAST_PART, LEAST_BYTES);
    return device->of_libraries[index].peak >= least;
}
