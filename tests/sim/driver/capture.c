/* See capture.h. */
#include "capture.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static struct {
    struct capture *captures; /* In progress, also those that are invalid but not ended. */
} state;

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- frontiers: sets of nodes ---- */

static void frontier_set(struct frontier *frontier, struct node *const *nodes, size_t count) {
    struct node **copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    if (count > 0 && copy == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    if (count > 0)
        memcpy(copy, nodes, count * sizeof *copy);
    free(frontier->nodes);
    frontier->nodes = copy;
    frontier->count = count;
}

static bool frontier_has(const struct frontier *frontier, const struct node *node) {
    for (size_t i = 0; i < frontier->count; i++)
        if (frontier->nodes[i] == node)
            return true;
    return false;
}

static void frontier_join(struct frontier *frontier, struct node *const *nodes, size_t count) {
    struct node **all = malloc((frontier->count + count + 1) * sizeof *all);
    if (all == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    size_t used = frontier->count;
    if (used > 0)
        memcpy(all, frontier->nodes, used * sizeof *all);
    for (size_t i = 0; i < count; i++)
        if (!frontier_has(frontier, nodes[i]))
            all[used++] = nodes[i];
    free(frontier->nodes);
    frontier->nodes = all;
    frontier->count = used;
}

/* ---- who may do what ---- */

static struct capture *capture_of_id(unsigned long long id) {
    struct capture *capture = state.captures;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

void capture_invalidate(unsigned long long capture_id) {
    struct capture *capture = capture_of_id(capture_id);
    if (capture != NULL)
        capture->invalid = true;
}

/* The capture of a blocking stream that work in the legacy stream would have to wait for. */
static struct capture *implicit_capture(const struct stream *stream) {
    if (!stream->legacy || state.captures == NULL)
        return NULL;
    for (struct stream *other = stream->context->streams; other != NULL; other = other->next)
        if (other->capture != NULL && stream_is_blocking(other))
            return other->capture;
    return NULL;
}

bool capture_blocks(struct stream *stream) {
    struct capture *capture = implicit_capture(stream);
    if (capture != NULL)
        capture->invalid = true;
    return capture != NULL;
}

static bool forbids_unsafe(const struct capture *capture) {
    bool own = pthread_equal(capture->thread, pthread_self());
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (own)
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_forbids_unsafe(void) {
    CUresult result = CUDA_SUCCESS;
    if (state.captures == NULL || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct capture *capture = state.captures; capture != NULL; capture = capture->next)
        if (forbids_unsafe(capture)) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

CUresult capture_forbids_mapping(void) {
    return sim.config.capture_vmm ? capture_forbids_unsafe() : CUDA_SUCCESS;
}

CUresult capture_forbids_asking(void) {
    return sim.config.capture_strict ? capture_forbids_unsafe() : CUDA_SUCCESS;
}

bool capture_goes_on(void) {
    return state.captures != NULL;
}

CUresult capture_forbids_wait(struct context *context) {
    CUresult result = CUDA_SUCCESS;
    if (state.captures == NULL)
        return CUDA_SUCCESS;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (stream->capture != NULL) {
            stream->capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

CUresult capture_forbids_stream(struct stream *stream) {
    if (capture_blocks(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (stream->capture == NULL)
        return CUDA_SUCCESS;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* ---- what is captured ---- */

CUresult capture_add(struct stream *stream, const struct op *op) {
    struct capture *capture = stream->capture;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (op->kind == OP_MARK || op->kind == OP_WAIT)
        return CUDA_ERROR_NOT_SUPPORTED; /* External events in graphs are not simulated. */
    struct node *node =
        graph_add(capture->graph, op, stream->frontier.nodes, stream->frontier.count);
    frontier_set(&stream->frontier, &node, 1);
    return CUDA_SUCCESS;
}

CUresult capture_record(struct stream *stream, struct captured_event *event) {
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture_id = stream->capture->id;
    frontier_set(&event->frontier, stream->frontier.nodes, stream->frontier.count);
    return CUDA_SUCCESS;
}

void capture_forget(struct captured_event *event) {
    event->capture_id = 0;
    frontier_set(&event->frontier, NULL, 0);
}

CUresult capture_join(struct stream *stream, const struct captured_event *event) {
    struct capture *capture = capture_of_id(event->capture_id);
    if (capture == NULL)
        return CUDA_ERROR_CAPTURED_EVENT; /* Its capture has ended. */
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->legacy) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture != NULL && stream->capture != capture) {
        capture->invalid = stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    stream->capture = capture;
    frontier_join(&stream->frontier, event->frontier.nodes, event->frontier.count);
    return CUDA_SUCCESS;
}

CUresult capture_isolation(struct stream *stream, bool recorded) {
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!recorded)
        return CUDA_SUCCESS; /* There is nothing to wait for. */
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

/* ---- begin and end ---- */

static CUresult begin(struct stream *stream, struct graph *graph, struct node *const *nodes,
                      size_t count, CUstreamCaptureMode mode) {
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof *capture);
    if (capture == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    capture->id = ++sim.last_id;
    capture->mode = mode;
    capture->owns_graph = graph == NULL;
    capture->graph = graph != NULL ? graph : graph_new();
    capture->origin = stream;
    capture->thread = pthread_self();
    capture->next = state.captures;
    state.captures = capture;
    stream->capture = capture;
    frontier_set(&stream->frontier, nodes, count);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    END(stream == NULL ? CUDA_ERROR_INVALID_HANDLE : begin(stream, NULL, NULL, 0, mode));
}

CUresult cuStreamBeginCapture(CUstream handle) {
    return cuStreamBeginCapture_v2(handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle,
                                     const CUgraphNode *nodes, const CUgraphEdgeData *edges,
                                     size_t count, CUstreamCaptureMode mode) {
    (void)edges;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (count > 0 && nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    struct graph *graph = handle_get((uintptr_t)graph_handle, HANDLE_GRAPH);
    struct frontier start = {NULL, 0};
    if (stream == NULL || graph == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (!nodes_of(nodes, count, &start))
        END(CUDA_ERROR_INVALID_VALUE);
    CUresult result = begin(stream, graph, start.nodes, start.count, mode);
    free(start.nodes);
    END(result);
}

static void leave(struct stream *stream) {
    stream->capture = NULL;
    frontier_set(&stream->frontier, NULL, 0);
}

/* Takes all streams out of the capture and forgets it; the graph is the caller's. */
static void finish(struct capture *capture) {
    for (struct context *context = context_next(NULL); context != NULL;
         context = context_next(context))
        for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
            if (stream->capture == capture)
                leave(stream);
    struct capture **link = &state.captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    free(capture);
}

void capture_stream_gone(struct stream *stream) {
    struct capture *capture = stream->capture;
    if (capture == NULL)
        return;
    capture->invalid = true;
    leave(stream);
    if (capture->origin != stream)
        return;
    if (capture->owns_graph)
        graph_delete(capture->graph);
    finish(capture);
}

static CUresult end(struct stream *stream, CUgraph *out) {
    struct capture *capture = stream->capture;
    *out = NULL;
    if (capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    struct graph *graph = capture->graph;
    bool owned = capture->owns_graph;
    CUresult result = CUDA_SUCCESS;
    if (capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (owned && !graph_all_before(graph, stream->frontier.nodes, stream->frontier.count))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    finish(capture);
    if (result == CUDA_SUCCESS)
        *out = graph_handle(graph);
    else if (owned)
        graph_delete(graph);
    return result;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *out) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    END(stream == NULL ? CUDA_ERROR_INVALID_HANDLE : end(stream, out));
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

static CUstreamCaptureStatus status_of(const struct stream *stream) {
    if (stream->capture == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **nodes,
                                   const CUgraphEdgeData **edges, size_t *count) {
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    if (stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (implicit_capture(stream) != NULL)
        END(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        END(CUDA_SUCCESS);
    if (id != NULL)
        *id = stream->capture->id;
    if (graph != NULL)
        *graph = graph_handle(stream->capture->graph);
    if (nodes != NULL)
        *nodes = graph_node_handles(stream->capture->graph, &stream->frontier);
    if (edges != NULL)
        *edges = NULL; /* No edge carries data here. */
    if (count != NULL)
        *count = stream->frontier.count;
    END(CUDA_SUCCESS);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **nodes, size_t *count) {
    return cuStreamGetCaptureInfo_v3(handle, status, id, graph, nodes, NULL, count);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id) {
    return cuStreamGetCaptureInfo_v3(handle, status, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
    return cuStreamGetCaptureInfo_v3(handle, status, NULL, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *nodes,
                                              const CUgraphEdgeData *edges, size_t count,
                                              unsigned flags) {
    (void)edges;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count > 0 && nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    struct frontier wanted = {NULL, 0};
    if (stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (stream->capture == NULL || stream->capture->invalid)
        END(CUDA_ERROR_ILLEGAL_STATE);
    if (!nodes_of(nodes, count, &wanted))
        END(CUDA_ERROR_INVALID_VALUE);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        frontier_set(&stream->frontier, wanted.nodes, wanted.count);
    else
        frontier_join(&stream->frontier, wanted.nodes, wanted.count);
    free(wanted.nodes);
    END(CUDA_SUCCESS);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *nodes, size_t count,
                                           unsigned flags) {
    return cuStreamUpdateCaptureDependencies_v2(handle, nodes, NULL, count, flags);
}
