/* Streams as objects, and the calls that create, find, describe, wait for and destroy them. */
#include "capture.h"
#include "memory.h"
#include "simgpu.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

/* The per-thread default streams of one thread. */
struct own_stream {
    struct own_stream *next;
    struct context *context;
    unsigned long long activation; /* Of the context: the stream is gone with it. */
    struct stream *stream;
};

static struct {
    pthread_once_t once;
    pthread_key_t key; /* Its value is the thread's list of own_stream. */
    unsigned dying;
} streams = {.once = PTHREAD_ONCE_INIT};

struct stream *stream_new(struct context *context, unsigned flags, int priority) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority > LEAST_PRIORITY      ? LEAST_PRIORITY
                       : priority < GREATEST_PRIORITY ? GREATEST_PRIORITY
                                                      : priority;
    stream->id = ++sim.last_id;
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

bool stream_is_blocking(const struct stream *stream) {
    return !stream->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

void stream_learn(struct stream *stream, const struct marker *marker) {
    unsigned long long id = marker->stream->id;
    unsigned place = 0;
    while (place < KNOWN_ORDERS && stream->known[place].stream_id != id)
        place++;
    if (place == KNOWN_ORDERS)
        place = stream->next_known++ % KNOWN_ORDERS;
    else if (stream->known[place].ticket > marker->ticket)
        return;
    stream->known[place] = (struct known_order){id, marker->ticket};
}

bool stream_follows(const struct stream *stream, const struct marker *marker) {
    const struct stream *other = marker->stream;
    if (stream->legacy && other->context == stream->context && stream_is_blocking(other))
        return true;
    if (other->legacy && other->context == stream->context && stream_is_blocking(stream))
        return true;
    for (unsigned i = 0; i < KNOWN_ORDERS; i++)
        if (stream->known[i].stream_id == other->id)
            return stream->known[i].ticket >= marker->ticket;
    return false;
}

static void stream_free(struct stream *stream) {
    struct stream **link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    free(stream->frontier.nodes);
    free(stream);
}

static void reap_context(struct context *context) {
    struct stream *stream = context->streams;
    while (stream != NULL) {
        struct stream *next = stream->next;
        if (stream->dying && stream->head == NULL && stream->waiters == 0) {
            streams.dying--;
            stream_free(stream);
        }
        stream = next;
    }
}

void streams_reap(void) {
    if (streams.dying == 0 || queue_is_walked())
        return;
    for (struct context *context = context_next(NULL); context != NULL;
         context = context_next(context))
        reap_context(context);
}

/* The stream is freed by the next streams_reap that finds its work ended. */
static void stream_retire(struct stream *stream) {
    if (stream->dying)
        return;
    if (stream->handle != NULL)
        handle_drop((uintptr_t)stream->handle);
    stream->handle = NULL;
    capture_stream_gone(stream);
    stream->held = false;
    stream->dying = true;
    stream->visible_ticket = sim.last_ticket; /* Its work ends by itself. */
    streams.dying++;
    queue_changed(); /* It may have been held. */
}

void stream_destroy(struct stream *stream) {
    stream_retire(stream);
    streams_reap();
}

void streams_drop_context(struct context *context) {
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (!stream->legacy)
            stream_retire(stream);
    streams_reap(); /* Not inside the loop: it frees streams that the loop has not come to. */
}

/* ---- the per-thread default stream ---- */

static bool still_there(const struct own_stream *own) {
    return own->context->alive && own->context->activation == own->activation;
}

static void thread_ends(void *list) {
    pthread_mutex_lock(&sim.lock);
    struct own_stream *own = list;
    while (own != NULL) {
        struct own_stream *next = own->next;
        if (still_there(own))
            stream_destroy(own->stream);
        free(own);
        own = next;
    }
    pthread_mutex_unlock(&sim.lock);
}

static void make_key(void) {
    pthread_key_create(&streams.key, thread_ends);
}

static struct stream *own_stream(struct context *context) {
    pthread_once(&streams.once, make_key);
    struct own_stream *list = pthread_getspecific(streams.key);
    for (struct own_stream *own = list; own != NULL; own = own->next)
        if (own->context == context && still_there(own))
            return own->stream;
    struct own_stream *own = calloc(1, sizeof *own);
    if (own == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    *own = (struct own_stream){list, context, context->activation,
                               stream_new(context, CU_STREAM_DEFAULT, 0)};
    pthread_setspecific(streams.key, own);
    return own->stream;
}

struct stream *stream_of(CUstream handle) {
    struct context *context = context_current();
    bool default_stream =
        handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    if (!default_stream)
        return handle_get((uintptr_t)handle, HANDLE_STREAM);
    if (context == NULL || !context->alive)
        return NULL;
    if (handle == CU_STREAM_PER_THREAD || (handle == NULL && sim_default_stream_is_per_thread()))
        return own_stream(context);
    return context->legacy;
}

/* ---- public calls ---- */

/* Takes the lock and finds the stream; every call on a stream begins so. */
static CUresult begin_stream(CUstream handle, struct stream **stream) {
    CUresult result = sim_begin(NEED_CONTEXT);
    if (result != CUDA_SUCCESS)
        return result;
    *stream = stream_of(handle);
    if (*stream != NULL)
        return CUDA_SUCCESS;
    sim_fault("stream %p does not exist", (void *)handle);
    return sim_end("stream", CUDA_ERROR_INVALID_HANDLE);
}

#define BEGIN_STREAM(handle, stream)                                                               \
    struct stream *stream;                                                                         \
    FAIL_IF_TOLD();                                                                                \
    CUresult begin_result = begin_stream(handle, &stream);                                         \
    if (begin_result != CUDA_SUCCESS)                                                              \
    return begin_result

static CUresult create(CUstream *out, unsigned flags, int priority) {
    if (out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    streams_reap();
    struct stream *stream = stream_new(context_current(), flags, priority);
    stream->handle = (CUstream)handle_make(HANDLE_STREAM, stream);
    *out = stream->handle;
    END(CUDA_SUCCESS);
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    FAIL_IF_TOLD();
    return create(out, flags, priority);
}

CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    FAIL_IF_TOLD();
    return create(out, flags, 0);
}

/* Of a part of the card's processors: here all of them work for it. */
CUresult cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx part, unsigned flags, int priority) {
    (void)part;
    FAIL_IF_TOLD();
    return create(out, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
    BEGIN(NEED_INIT);
    struct stream *stream = handle_get((uintptr_t)handle, HANDLE_STREAM);
    if (stream == NULL) {
        sim_fault("cuStreamDestroy of stream %p, which does not exist", (void *)handle);
        END(CUDA_ERROR_INVALID_HANDLE);
    }
    stream_destroy(stream);
    END(CUDA_SUCCESS);
}

CUresult cuStreamDestroy(CUstream handle) {
    return cuStreamDestroy_v2(handle);
}

CUresult cuStreamSynchronize(CUstream handle) {
    BEGIN_STREAM(handle, stream);
    CUresult result = capture_forbids_stream(stream);
    if (result == CUDA_SUCCESS)
        result = capture_forbids_asking();
    if (result == CUDA_SUCCESS)
        result = queue_wait_stream(stream);
    END(result);
}

CUresult cuStreamQuery(CUstream handle) {
    BEGIN_STREAM(handle, stream);
    CUresult result = capture_forbids_stream(stream);
    if (result == CUDA_SUCCESS)
        result = capture_forbids_asking();
    if (result != CUDA_SUCCESS)
        END(result);
    latency_pass(COST_STREAM_QUERY, 0);
    stream = stream_of(handle); /* The lock may have been let go. */
    result = stream != NULL ? queue_query_stream(stream) : CUDA_ERROR_INVALID_HANDLE;
    END(result);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority) {
    if (priority == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN_STREAM(handle, stream);
    *priority = stream->priority;
    END(CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN_STREAM(handle, stream);
    *flags = stream->flags;
    END(CUDA_SUCCESS);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN_STREAM(handle, stream);
    *id = stream->id;
    END(CUDA_SUCCESS);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device) {
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN_STREAM(handle, stream);
    *device = stream->context->device->ordinal;
    END(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN_STREAM(handle, stream);
    *context = stream->context->handle;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    BEGIN(NEED_CONTEXT);
    if (least != NULL)
        *least = LEAST_PRIORITY;
    if (greatest != NULL)
        *greatest = GREATEST_PRIORITY;
    END(CUDA_SUCCESS);
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t bytes,
                                unsigned flags) {
    (void)bytes;
    (void)flags;
    BEGIN_STREAM(handle, stream);
    (void)stream;
    struct block *block = block_find(pointer);
    END(block != NULL && block_is_host(block) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult submit_host(CUstream handle, const struct host_op *host) {
    BEGIN_STREAM(handle, stream);
    struct op op = {.kind = OP_HOST, .visible = true, .host = *host};
    END(queue_submit(stream, &op, 0));
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    FAIL_IF_TOLD();
    return submit_host(handle, &(struct host_op){.function = function, .data = data});
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data,
                             unsigned flags) {
    if (callback == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    FAIL_IF_TOLD();
    return submit_host(handle,
                       &(struct host_op){.callback = callback, .handle = handle, .data = data});
}

static int hold(CUstream handle, bool held) {
    BEGIN_STREAM(handle, stream);
    stream->held = held;
    if (stream->visible_ticket != 0)
        queue_visible(stream);
    queue_changed();
    END(CUDA_SUCCESS);
}

int simgpu_hold(CUstream handle) {
    return hold(handle, true);
}

int simgpu_release(CUstream handle) {
    return hold(handle, false);
}
