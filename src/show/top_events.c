/* top_events.c: see top_events.h. It must not print. */
#include "show/top_events.h"
#include "show/summary.h"
#include "base/base.h"

#include <string.h>

/* Newest first; what is older than all of a full list is left out. */
static size_t insert_event(struct top_event *events, size_t count, size_t most,
                           struct top_event event) {
    size_t place = count;
    while (place > 0 && events[place - 1].time_ns < event.time_ns)
        place--;
    if (place >= most)
        return count;
    size_t kept = count < most ? count : most - 1;
    memmove(&events[place + 1], &events[place], (kept - place) * sizeof event);
    events[place] = event;
    return kept + 1;
}

size_t top_events(const struct top_view *view, struct top_event *events, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < view->running.count; i++) {
        const struct running_process *process = &view->running.list[i];
        const struct stats_file *record = process->record;
        struct top_event event = {.process = process};
        for (size_t j = 0; j < record->action_count; j++) {
            event.action = record->actions[j];
            event.time_ns = record->file->started_ns + event.action->time_ns;
            if (!is_small_reclaim(record, event.action))
                count = insert_event(events, count, most, event);
        }
        event.action = NULL;
        for (size_t j = 0; j < record->refusal_count; j++) {
            event.refusal = record->refusals[j];
            event.time_ns = record->file->started_ns + event.refusal->time_ns;
            count = insert_event(events, count, most, event);
        }
    }
    return count;
}
