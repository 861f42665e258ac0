/* while_parked.c: see while_parked.h. Who parks is another process, which may be killed at any
 * step: it must not be believed for longer than it lives. */
#include "track/while_parked.h"

#include "base/process_stat.h"
#include "track/device.h"

bool parked_now(void) {
    uint64_t parked = figure_get(&store_file()->parked);
    return UNLIKELY(parked) && (parked == 1 || process_key_lives(parked));
}

static bool is_answered(size_t *free_bytes, size_t *total_bytes) {
    struct device *device =
        free_bytes && total_bytes && recording_is_on() && parked_now() ? device_current() : NULL;
    uint64_t total = device ? atomic_load(&device->memory.total_bytes) : 0;
    uint64_t told = device ? atomic_load(&device->memory.told_bytes) : 0;
    if (!total || !told)
        return false;
    *free_bytes = told;
    *total_bytes = total;
    return true;
}

/* The second look is for one that was parked since the first: whoever parks it sees us then. */
bool parked_info_begins(size_t *free_bytes, size_t *total_bytes) {
    if (is_answered(free_bytes, total_bytes))
        return true;
    parked_question_begins();
    if (!is_answered(free_bytes, total_bytes))
        return false;
    parked_question_ends();
    return true;
}

void parked_info_ends(size_t free_bytes) {
    struct device *device = free_bytes && recording_is_on() ? device_current() : NULL;
    if (device)
        atomic_store(&device->memory.told_bytes, free_bytes);
    parked_question_ends();
}
