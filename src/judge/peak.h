/* peak.h: whether the highest live memory was that of one short time: a load of LoRAs, the decoding
 * of one large image. What it needed beyond all else is what a smaller card lacks. It knows neither
 * functions nor jobs: the timeline will do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vramgc_format.h"

struct short_peak {
    bool stands_alone;
    uint64_t time_ns, live_bytes;
    uint64_t else_bytes;        /* the most that was live in all the rest of the time */
    uint64_t from_ns, until_ns; /* but of this, which it lies in */
};

/* elapsed_ns: of the whole record. */
struct short_peak short_peak_of(const struct vramgc_device *device, uint64_t elapsed_ns);
