/* Submitting a copy; shared by the linear calls and those with rows, slices and arrays. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "memory.h"
#include "queue.h"

/* wait: the host waits for the stream, as in the calls without a stream. */
CUresult copy_submit(struct stream *stream, const struct copy_op *wanted, bool wait);

#endif
