/* Events, for the parts that have to look inside one. */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "capture.h"

struct event {
    struct context *context;
    unsigned flags;
    struct marker *marker;          /* NULL if never recorded outside a capture. */
    struct captured_event captured; /* Set if it was last recorded in a capture. */
};

/* NULL, and a report, if there is no such event. */
struct event *event_of(CUevent handle);

#endif
