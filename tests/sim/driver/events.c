/* Events. What an event means is a marker in a stream; recording it again gives it a new marker,
 * and who waits keeps the marker that he began to wait for. */
#include "capture.h"
#include "events.h"

#include <stdlib.h>

#define KNOWN_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

struct event *event_of(CUevent handle) {
    struct event *event = handle_get((uintptr_t)handle, HANDLE_EVENT);
    if (event == NULL)
        sim_fault("event %p does not exist", (void *)handle);
    return event;
}

CUresult cuEventCreate(CUevent *out, unsigned flags) {
    if (out == NULL || (flags & ~(unsigned)KNOWN_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct event *event = calloc(1, sizeof *event);
    if (event == NULL)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    event->context = context_current();
    event->flags = flags;
    *out = (CUevent)handle_make(HANDLE_EVENT, event);
    END(CUDA_SUCCESS);
}

static void forget(struct event *event) {
    marker_drop(event->marker);
    event->marker = NULL;
    capture_forget(&event->captured);
}

CUresult cuEventDestroy_v2(CUevent handle) {
    BEGIN(NEED_INIT);
    struct event *event = event_of(handle);
    if (event == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    forget(event);
    handle_drop((uintptr_t)handle);
    free(event);
    END(CUDA_SUCCESS);
}

static CUresult record(struct event *event, struct stream *stream, unsigned flags) {
    if (stream->capture != NULL && flags != CU_EVENT_RECORD_EXTERNAL) {
        marker_drop(event->marker);
        event->marker = NULL;
        return capture_record(stream, &event->captured);
    }
    struct op op = {.kind = OP_MARK, .marker = marker_new(stream)};
    struct marker *marker = marker_keep(op.marker); /* The operation may have run by the end. */
    CUresult result = queue_submit(stream, &op, cost_ns(COST_EVENT_RECORD, 0));
    if (result != CUDA_SUCCESS) {
        marker_drop(op.marker);
        marker_drop(marker);
        return result;
    }
    forget(event);
    event->marker = marker;
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent handle, CUstream stream_handle, unsigned flags) {
    BEGIN(NEED_CONTEXT);
    struct event *event = event_of(handle);
    struct stream *stream = stream_of(stream_handle);
    if (event == NULL || stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (event->context->device != stream->context->device)
        END(CUDA_ERROR_INVALID_HANDLE);
    END(record(event, stream, flags));
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags) {
    if (flags > CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    FAIL_IF_TOLD();
    return event_record(handle, stream, flags);
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
    FAIL_IF_TOLD();
    return event_record(handle, stream, CU_EVENT_RECORD_DEFAULT);
}

/* The work of all streams, those that were destroyed and those of threads included. A driver before
 * CUDA 12.5 does not have it at all; here it is found and refuses. */
CUresult cuCtxRecordEvent(CUcontext context_handle, CUevent handle) {
    BEGIN(NEED_INIT);
    struct context *context = handle_get((uintptr_t)context_handle, HANDLE_CONTEXT);
    struct event *event = event_of(handle);
    if (!sim.config.context_event || sim.config.driver_version < 12050)
        END(CUDA_ERROR_NOT_SUPPORTED);
    if (context == NULL || !context->alive)
        END(CUDA_ERROR_INVALID_CONTEXT);
    if (event == NULL || event->context != context)
        END(CUDA_ERROR_INVALID_HANDLE);
    CUresult result = capture_forbids_wait(context);
    if (result != CUDA_SUCCESS)
        END(result);
    forget(event);
    event->marker = marker_of_context(context, cost_ns(COST_EVENT_RECORD, 0));
    END(CUDA_SUCCESS);
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
    if (flags > CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct event *event = event_of(handle);
    struct stream *stream = stream_of(stream_handle);
    if (event == NULL || stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (stream->capture != NULL && flags == CU_EVENT_WAIT_EXTERNAL)
        END(CUDA_ERROR_NOT_SUPPORTED); /* External events in graphs are not simulated. */
    if (event->captured.capture_id != 0)
        END(capture_join(stream, &event->captured));
    if (stream->capture != NULL)
        END(capture_isolation(stream, event->marker != NULL));
    if (event->marker == NULL || event->marker->done)
        END(CUDA_SUCCESS);
    struct op op = {.kind = OP_WAIT, .marker = marker_keep(event->marker)};
    CUresult result = queue_submit(stream, &op, 0);
    if (result != CUDA_SUCCESS)
        marker_drop(op.marker);
    END(result);
}

/* Takes the lock and finds an event that can be asked or waited for. */
static CUresult begin_event(CUevent handle, struct event **event) {
    CUresult result = sim_begin(NEED_INIT);
    if (result != CUDA_SUCCESS)
        return result;
    *event = event_of(handle);
    if (*event == NULL)
        return sim_end("event", CUDA_ERROR_INVALID_HANDLE);
    if ((*event)->captured.capture_id == 0)
        return CUDA_SUCCESS;
    capture_invalidate((*event)->captured.capture_id);
    return sim_end("event", CUDA_ERROR_CAPTURED_EVENT);
}

CUresult cuEventQuery(CUevent handle) {
    struct event *event;
    FAIL_IF_TOLD();
    CUresult result = begin_event(handle, &event);
    if (result != CUDA_SUCCESS)
        return result;
    result = capture_forbids_unsafe();
    if (result != CUDA_SUCCESS)
        END(result);
    latency_pass(COST_EVENT_QUERY, 0);
    event = handle_get((uintptr_t)handle, HANDLE_EVENT); /* The lock may have been let go. */
    if (event == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (event->marker != NULL && sim.config.cheat != CHEAT_EARLY_EVENT)
        END(queue_query_marker(event->marker));
    END(event->context->sticky);
}

CUresult cuEventSynchronize(CUevent handle) {
    struct event *event;
    FAIL_IF_TOLD();
    CUresult result = begin_event(handle, &event);
    if (result != CUDA_SUCCESS)
        return result;
    result = capture_forbids_unsafe();
    if (result == CUDA_SUCCESS && event->marker != NULL)
        result = queue_wait_marker(event->marker);
    END(result);
}

static CUresult elapsed(float *milliseconds, const struct event *start, const struct event *end) {
    if (start == NULL || end == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->marker == NULL || end->marker == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start->marker->done || !end->marker->done)
        return CUDA_ERROR_NOT_READY;
    double difference = (double)end->marker->time_ns - (double)start->marker->time_ns;
    *milliseconds = (float)(difference / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    if (milliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    END(elapsed(milliseconds, event_of(start), event_of(end)));
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
