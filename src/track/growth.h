/* growth.h: how low live memory falls before it rises again, time after time: what stays after each
 * job. On the way of every block event: it must cost next to nothing, and judges nothing. */
#ifndef GROWTH_H
#define GROWTH_H

#include <stdbool.h>

#include "base/base.h"
#include "vramgc_format.h"

/* Zero at first. */
struct growth {
    uint64_t turn_bytes; /* the highest since it began to rise, or the lowest since it fell */
    bool falling;
};

void growth_turned(struct growth *growth, struct vramgc_floors *out, uint64_t live_bytes);

/* A turn is a change of direction by so much. */
static inline uint64_t growth_least_bytes(uint64_t total_bytes) {
    return max_u64(32 * MEBIBYTE, total_bytes / 256);
}

/* Live memory is now so much. One thread at a time. */
static inline void growth_note(struct growth *growth, struct vramgc_floors *out,
                               uint64_t live_bytes, uint64_t total_bytes) {
    uint64_t turn = growth->turn_bytes;
    bool on = growth->falling ? live_bytes <= turn : live_bytes >= turn;
    if (LIKELY(on))
        growth->turn_bytes = live_bytes;
    else if (UNLIKELY((growth->falling ? live_bytes - turn : turn - live_bytes) >=
                      growth_least_bytes(total_bytes)))
        growth_turned(growth, out, live_bytes);
}

#endif
