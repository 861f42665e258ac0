/* call.c: see call.h. It must stay cheap: it is on the way of every hook. */
#include "track/call.h"

#include "track/device.h"
#include "track/recording.h"

_Static_assert(REAL_COUNT <= VRAMGC_MAX_HOOKS, "the file has room for every line of hooks.def");

void call_made(enum real_id id) {
    figure_add(&store_file()->hooks[id].calls, 1);
}

void call_failed(enum real_id id) {
    figure_add(&store_file()->hooks[id].failed, 1);
}

void call_unaccounted(void) {
    if (recording_is_on())
        figure_add(&store_file()->process.unaccounted_calls, 1);
}

void call_reached_driver(void) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (device)
        figure_add(&device->out->stats.driver_calls, 1);
}
