/* top_events.h: what vramgc gave back, and what found no room, of all programs that `vramgc top`
 * shows. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "show/top_view.h"

struct top_event {
    uint64_t time_ns; /* of CLOCK_MONOTONIC */
    const struct running_process *process;
    const struct vramgc_action *action; /* or */
    const struct vramgc_refusal *refusal;
};

/* The newest first; at most so many. How many. */
size_t top_events(const struct top_view *view, struct top_event *events, size_t most);
