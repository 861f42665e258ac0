/* growth.c: see growth.h. It must keep a run of any length in the slots that there are. */
#include "track/growth.h"

#include "store/store.h"

/* A reader may look meanwhile: it sees an older floor at worst. */
static void halve(struct vramgc_floors *out) {
    for (size_t i = 0; i < VRAMGC_MAX_FLOORS / 2; i++)
        figure_set(&out->bytes[i], min_u64(out->bytes[2 * i], out->bytes[2 * i + 1]));
    figure_set(&out->count, VRAMGC_MAX_FLOORS / 2);
    figure_set(&out->merged, out->merged * 2);
}

static void add_floor(struct vramgc_floors *out, uint64_t bytes) {
    if (!out->merged)
        figure_set(&out->merged, 1);
    uint64_t place = out->turns % out->merged;
    if (place == 0 && out->count == VRAMGC_MAX_FLOORS) {
        halve(out);
        place = out->turns % out->merged;
    }
    if (place == 0) {
        figure_set(&out->bytes[out->count], bytes);
        figure_set(&out->count, out->count + 1);
    } else {
        uint64_t *latest = &out->bytes[out->count - 1];
        figure_set(latest, min_u64(*latest, bytes));
    }
    figure_set(&out->turns, out->turns + 1);
}

void growth_floor(struct growth *growth, struct vramgc_floors *out) {
    add_floor(out, growth->lowest_bytes);
    growth->freed_bytes = 0;
}
