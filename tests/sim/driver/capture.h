/* Stream capture: while a stream captures, what is submitted becomes nodes of a graph. A call that
 * would break a capture is refused with the documented error and makes the capture invalid. */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "queue.h"

struct graph;
struct node;

/* One capture sequence, from its begin to its end; several streams may take part. */
struct capture {
    struct capture *next;
    unsigned long long id;
    CUstreamCaptureMode mode;
    struct graph *graph;
    bool owns_graph; /* False if it captures into a graph of the program's. */
    bool invalid;
    struct stream *origin;
    pthread_t thread;
};

/* What an event recorded in a capturing stream means. */
struct captured_event {
    unsigned long long capture_id; /* 0 if the event was not captured. */
    struct frontier frontier;
};

/* True if work in this stream would implicitly order itself with a capturing stream; that also
 * invalidates the capture. */
bool capture_blocks(struct stream *stream);
/* Adds an operation to the graph that the stream captures into. */
CUresult capture_add(struct stream *stream, const struct op *op);
/* For calls that are unsafe during capture (cuMemAlloc ...): an error if the calling thread must
 * not make them now. */
CUresult capture_forbids_unsafe(void);
/* For calls that map memory: the documents do not say. */
CUresult capture_forbids_mapping(void);
/* For calls that only ask: the documents do not say. */
CUresult capture_forbids_asking(void);
/* Is something captured in this process? */
bool capture_goes_on(void);
/* For calls that would wait for the whole context. */
CUresult capture_forbids_wait(struct context *context);
/* For calls that ask or wait for one stream. */
CUresult capture_forbids_stream(struct stream *stream);

CUresult capture_record(struct stream *stream, struct captured_event *event);
void capture_forget(struct captured_event *event);
/* cuStreamWaitEvent on a captured event: draws the stream into the capture. */
CUresult capture_join(struct stream *stream, const struct captured_event *event);
/* cuStreamWaitEvent of a capturing stream on an event from outside. */
CUresult capture_isolation(struct stream *stream, bool recorded);
/* Something asked about an event of this capture, which has no answer. */
void capture_invalidate(unsigned long long capture_id);
/* The stream ends: a capture it takes part in can't be completed. */
void capture_stream_gone(struct stream *stream);

#endif
