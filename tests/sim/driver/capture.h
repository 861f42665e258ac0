/* Stream capture: while a stream captures, what is submitted becomes nodes of a graph. */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "queue.h"

struct graph;
struct node;

/* True if work in this stream would implicitly order itself with a capturing stream; that also
 * invalidates the capture. */
bool capture_blocks(struct stream *stream);
/* Adds an operation to the graph that the stream captures into. */
CUresult capture_add(struct stream *stream, const struct op *op);
/* For calls that are unsafe during capture (cuMemAlloc ...): an error if the calling thread must
 * not make them now, which invalidates the captures concerned. */
CUresult capture_forbids_unsafe(void);
/* For calls that would wait for the whole context. */
CUresult capture_forbids_wait(struct context *context);
/* For calls that ask or wait for one stream. */
CUresult capture_forbids_stream(struct stream *stream);


/* What an event recorded in a capturing stream means. */
struct captured_event {
    struct graph *graph; /* NULL if the event was not captured. */
    unsigned long long capture_id;
    struct frontier frontier;
};

CUresult capture_record(struct stream *stream, struct captured_event *event);
void capture_forget(struct captured_event *event);
/* cuStreamWaitEvent on a captured event: draws the stream into the capture. */
CUresult capture_join(struct stream *stream, const struct captured_event *event);
/* cuStreamWaitEvent of a capturing stream on an event from outside. */
CUresult capture_isolation(struct stream *stream, bool recorded);
void capture_invalidate_graph(struct graph *graph);

#endif
