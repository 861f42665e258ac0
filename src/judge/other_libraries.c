/* other_libraries.c: see other_libraries.h. It shows what the file says, and judges nothing. */
#include "judge/other_libraries.h"
#include "base/base.h"

/* The least part of what all of them held at their peak; and the least that is worth a line. */
enum { LEAST_PART = 8 };
#define LEAST_BYTES ((uint64_t)1 << 20)

const char *library_name(const struct vramgc_file *file, uint64_t index) {
    return index > 0 && index < file->library_count ? or_null(file->libraries[index].name) : NULL;
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

void libraries_fields(struct emit *emit, const struct vramgc_file *file,
                      const struct vramgc_device *device) {
    size_t used[VRAMGC_MAX_LIBRARIES] = {0}, count = 0;
    for (size_t i = 1; i < file->library_count; i++)
        if (device->of_libraries[i].peak > 0)
            used[count++] = i;
    count = emit_list(emit, "libraries", "whose other_bytes are, by the file that called", count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_gauge *held = &device->of_libraries[used[i]];
        emit_open_line(emit, NULL, "one library");
        emit_text(emit, "name", "of its file", library_name(file, used[i]));
        emit_number(emit, "current", UNIT_BYTES, "at the end, or now", held->current);
        emit_number(emit, "peak", UNIT_BYTES, "highest value so far", held->peak);
        emit_close(emit);
    }
    emit_close(emit);
}
