/* See queue.h. */
#include "queue.h"
#include "capture.h"
#include "hard.h"
#include "memory.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    QUEUE_LIMIT = 1024,     /* As on a card the host does not run ahead without end. */
    QUEUE_KEEP = 512,       /* What stays pending when the limit is reached. */
    WORKER_LAG_NS = 200000, /* How late host-visible work runs by itself. */
    BLOCKED_NS = 2000000,   /* When the worker looks again at work that cannot run. */
    POLL_NS = 100000,       /* How often a value in memory is looked at. */
};

/* Why work can't run yet. */
struct delay {
    uint64_t wake_ns; /* 0 = no time known. */
    bool poll, worker;
};

static struct {
    pthread_cond_t wake;
    struct op *spare;
    bool started, wanted, urgent;
    bool walking; /* The worker is somewhere in the lists and may have let the lock go. */
} queue;

static _Thread_local bool is_worker;

void queue_changed(void) {
    pthread_cond_broadcast(&sim.changed);
}

struct marker *marker_new(struct stream *stream) {
    struct marker *marker = calloc(1, sizeof *marker);
    if (marker == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    marker->references = 1;
    marker->stream = stream;
    marker->context = stream->context;
    return marker;
}

/* Reached when all that was submitted to the context so far has run. */
struct marker *marker_of_context(struct context *context, uint64_t cost) {
    struct marker *marker = calloc(1, sizeof *marker);
    if (marker == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    marker->references = 1;
    marker->context = context;
    marker->ticket = sim.last_ticket;
    marker->time_ns = now_ns();
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (stream->timeline_ns > marker->time_ns)
            marker->time_ns = stream->timeline_ns;
    if (sim.config.latency == LATENCY_CARD)
        marker->time_ns += cost;
    return marker;
}

struct marker *marker_keep(struct marker *marker) {
    marker->references++;
    return marker;
}

void marker_drop(struct marker *marker) {
    if (marker != NULL && --marker->references == 0)
        free(marker);
}

/* ---- running ---- */

static bool stream_run(struct stream *stream, uint64_t ticket, struct delay *delay);

static void note_wake(struct delay *delay, uint64_t when_ns) {
    if (delay->wake_ns == 0 || when_ns < delay->wake_ns)
        delay->wake_ns = when_ns;
}

/* Runs what the legacy stream's rule puts before this operation. */
static bool barrier_run(struct stream *stream, uint64_t ticket, struct delay *delay) {
    struct context *context = stream->context;
    if (!stream->legacy)
        return !stream_is_blocking(stream) || stream_run(context->legacy, ticket - 1, delay);
    if (context->blocking_pending == 0)
        return true;
    bool done = true;
    for (struct stream *other = context->streams; other != NULL; other = other->next)
        if (stream_is_blocking(other) && !stream_run(other, ticket - 1, delay))
            done = false;
    return done;
}

static bool context_run(struct context *context, uint64_t ticket, struct delay *delay) {
    bool done = true;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (!stream_run(stream, ticket, delay))
            done = false;
    return done;
}

static bool context_marker_run(struct marker *marker, struct delay *delay) {
    bool run = context_run(marker->context, marker->ticket, delay);
    bool due = sim.config.latency != LATENCY_CARD || marker->time_ns <= now_ns();
    if (!due)
        note_wake(delay, marker->time_ns);
    marker->done = marker->done || (run && due);
    return marker->done;
}

static bool marker_run(struct marker *marker, struct delay *delay) {
    if (marker->done)
        return true;
    return marker->stream != NULL ? stream_run(marker->stream, marker->ticket, delay)
                                  : context_marker_run(marker, delay);
}

static bool ready(struct stream *stream, struct op *op, struct delay *delay) {
    if (stream->held || stream->running)
        return false;
    if (!barrier_run(stream, op->ticket, delay))
        return false;
    if (op->kind == OP_WAIT && !marker_run(op->marker, delay))
        return false;
    if (op->due_ns != 0 && op->due_ns > now_ns()) {
        note_wake(delay, op->due_ns);
        return false;
    }
    if (op->kind == OP_WAIT_VALUE && !op_is_ready(op)) {
        delay->poll = true;
        return false;
    }
    if (op->kind == OP_HOST && !is_worker) {
        delay->worker = true;
        return false;
    }
    return true;
}

static bool has_address(const struct op *op) {
    return op->kind != OP_LAUNCH && op->kind != OP_MARK && op->kind != OP_WAIT &&
           op->kind != OP_HOST;
}

static void pop(struct stream *stream) {
    struct op *op = stream->head;
    stream->head = op->next;
    stream->queued--;
    if (stream->head == NULL)
        stream->tail = NULL;
    if (has_address(op))
        stream->with_address--;
    if (stream_is_blocking(stream))
        stream->context->blocking_pending--;
    op_release(op);
    op->next = queue.spare;
    queue.spare = op;
}

/* Runs the stream's work up to a ticket; false if something has to wait. */
static bool stream_run(struct stream *stream, uint64_t ticket, struct delay *delay) {
    while (stream->head != NULL && stream->head->ticket <= ticket) {
        struct op *op = stream->head;
        uint64_t own = op->ticket;
        if (!ready(stream, op, delay))
            return false;
        if (stream->head != op || op->ticket != own)
            continue; /* It ran while its predecessors were looked at. */
        stream->running = true;
        op_run(stream, op);
        stream->running = false;
        pop(stream);
    }
    return true;
}

/* ---- the driver's own thread ---- */

static void timed_wait(pthread_cond_t *condition, uint64_t until_ns) {
    until_ns = machine_ns(until_ns);
    struct timespec time = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    pthread_cond_timedwait(condition, &sim.lock, &time);
}

/* Runs host-visible work of all streams; false if some is left. */
static bool run_visible(struct delay *delay) {
    bool done = true;
    for (struct context *context = context_next(NULL); context != NULL;
         context = context_next(context))
        for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
            if (!stream_run(stream, stream->visible_ticket, delay))
                done = false;
    return done;
}

static void worker_pass(void) {
    struct delay delay = {0};
    queue.wanted = queue.urgent = false;
    queue.walking = true;
    bool done = run_visible(&delay);
    queue.walking = false;
    streams_reap();
    queue_changed();
    if (done)
        return;
    queue.wanted = true;
    uint64_t until = now_ns() + (delay.poll ? WORKER_LAG_NS : BLOCKED_NS);
    if (delay.wake_ns != 0)
        until = delay.wake_ns;
    if (!queue.urgent)
        timed_wait(&queue.wake, until);
}

static void *worker(void *unused) {
    is_worker = true;
    pthread_mutex_lock(&sim.lock);
    for (;;) {
        while (!queue.wanted)
            pthread_cond_wait(&queue.wake, &sim.lock);
        if (!queue.urgent)
            timed_wait(&queue.wake, now_ns() + WORKER_LAG_NS);
        worker_pass();
    }
    return unused;
}

static void worker_start(void) {
    pthread_condattr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.wake, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    queue.started = pthread_create(&thread, NULL, worker, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!queue.started)
        abort(); /* Host functions could never run. */
    pthread_detach(thread);
}

static void worker_call(bool urgent) {
    if (!queue.started)
        worker_start();
    if (queue.wanted && (queue.urgent || !urgent))
        return;
    queue.wanted = true;
    queue.urgent = queue.urgent || urgent;
    pthread_cond_signal(&queue.wake);
}

/* ---- submission ---- */

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* When an operation submitted now can start on the simulated clock. */
static uint64_t start_time(struct stream *stream, const struct op *op) {
    uint64_t start = later(now_ns(), stream->timeline_ns);
    struct context *context = stream->context;
    if (op->kind == OP_WAIT)
        start = later(start, op->marker->time_ns);
    if (stream_is_blocking(stream))
        start = later(start, context->legacy->timeline_ns);
    if (stream->legacy)
        for (struct stream *other = context->streams; other != NULL; other = other->next)
            if (stream_is_blocking(other))
                start = later(start, other->timeline_ns);
    return start;
}

static void set_time(struct stream *stream, struct op *op, uint64_t cost) {
    bool card = sim.config.latency == LATENCY_CARD;
    op->due_ns = 0;
    if (!card && op->kind != OP_MARK)
        return;
    uint64_t end = start_time(stream, op) + (card ? device_ns(op, cost) : 0);
    stream->timeline_ns = end;
    if (card)
        op->due_ns = end;
    if (op->kind == OP_MARK)
        op->marker->time_ns = end;
}

static struct op *op_new(const struct op *from) {
    struct op *op = queue.spare;
    if (op != NULL)
        queue.spare = op->next;
    else
        op = malloc(sizeof *op);
    if (op == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    *op = *from;
    op->next = NULL;
    return op;
}

static void append(struct stream *stream, struct op *op) {
    if (stream->tail != NULL)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    stream->queued++;
    if (has_address(op))
        stream->with_address++;
    if (stream_is_blocking(stream))
        stream->context->blocking_pending++;
}

static void stall(const struct delay *delay) {
    uint64_t until = delay->wake_ns;
    if (delay->worker)
        worker_call(true);
    if (delay->poll && (until == 0 || until > now_ns() + POLL_NS))
        until = now_ns() + POLL_NS;
    if (until != 0)
        timed_wait(&sim.changed, until);
    else
        pthread_cond_wait(&sim.changed, &sim.lock);
}

/* Keeps a queue from growing without end, unless it is held back for good. */
static void trim(struct stream *stream) {
    struct delay delay = {0};
    stream->waiters++;
    while (stream->queued > QUEUE_KEEP) {
        if (stream_run(stream, stream->head->ticket, &delay))
            continue;
        if (delay.wake_ns == 0 || stream->held)
            break;
        stall(&delay);
        delay = (struct delay){0};
    }
    stream->waiters--;
}

CUresult queue_submit(struct stream *stream, const struct op *from, uint64_t cost) {
    stream->waiters++;
    if (sim.config.context_lock)
        latency_wait();
    stream->waiters--;
    if (capture_blocks(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (stream->capture != NULL)
        return capture_add(stream, from);
    struct op *op = op_new(from);
    op->ticket = ++sim.last_ticket;
    if (op->kind == OP_MARK)
        op->marker->ticket = op->ticket;
    if (op->kind == OP_WAIT && !op->marker->done && op->marker->stream != NULL)
        stream_learn(stream, op->marker);
    set_time(stream, op, cost);
    append(stream, op);
    if (op->visible) {
        stream->visible_ticket = op->ticket;
        worker_call(false);
    }
    if (stream->queued > QUEUE_LIMIT)
        trim(stream);
    return CUDA_SUCCESS;
}

/* ---- waiting and asking ---- */

CUresult queue_wait_stream(struct stream *stream) {
    struct delay delay = {0};
    struct context *context = stream->context;
    uint64_t ticket = sim.last_ticket;
    stream->waiters++;
    while (!stream_run(stream, ticket, &delay)) {
        stall(&delay);
        delay = (struct delay){0};
    }
    /* For the legacy stream its rule makes this a wait for the blocking streams as well. */
    while (stream->legacy && !barrier_run(stream, ticket + 1, &delay)) {
        stall(&delay);
        delay = (struct delay){0};
    }
    stream->waiters--;
    pool_synchronised(context->device);
    return context->sticky;
}

CUresult queue_wait_marker(struct marker *marker) {
    struct delay delay = {0};
    struct context *context = marker->context;
    marker_keep(marker);
    while (!marker_run(marker, &delay)) {
        stall(&delay);
        delay = (struct delay){0};
    }
    marker_drop(marker);
    pool_synchronised(context->device);
    return context->sticky;
}

CUresult queue_wait_context(struct context *context) {
    struct delay delay = {0};
    uint64_t ticket = sim.last_ticket;
    while (!context_run(context, ticket, &delay)) {
        stall(&delay);
        delay = (struct delay){0};
    }
    pool_synchronised(context->device);
    return context->sticky;
}

void queue_wait_device(struct device *device) {
    for (struct context *context = context_next(NULL); context != NULL;
         context = context_next(context))
        if (context->device == device)
            queue_wait_context(context);
}

CUresult queue_query_stream(struct stream *stream) {
    struct delay delay = {0};
    if (stream->context->sticky != CUDA_SUCCESS)
        return stream->context->sticky;
    uint64_t last = stream->tail != NULL ? stream->tail->ticket : 0;
    if (stream->asked_ticket < last)
        stream->asked = 0;
    stream->asked_ticket = last;
    if (sim.config.latency == LATENCY_NONE && last && stream->asked + 1 < sim.config.asked) {
        stream->asked++;
        return CUDA_ERROR_NOT_READY;
    }
    bool done = stream_run(stream, last, &delay);
    if (delay.worker)
        worker_call(true);
    return done ? stream->context->sticky : CUDA_ERROR_NOT_READY;
}

CUresult queue_query_marker(struct marker *marker) {
    struct delay delay = {0};
    struct context *context = marker->context;
    if (context->sticky != CUDA_SUCCESS || marker->done)
        return context->sticky;
    if (sim.config.latency == LATENCY_NONE && marker->asked + 1 < sim.config.asked) {
        marker->asked++;
        return CUDA_ERROR_NOT_READY;
    }
    bool done = marker_run(marker, &delay);
    if (delay.worker)
        worker_call(true);
    return done ? context->sticky : CUDA_ERROR_NOT_READY;
}

static bool stream_uses(const struct stream *stream, uintptr_t base, size_t bytes,
                        uint64_t before) {
    if (stream->with_address == 0)
        return false;
    for (const struct op *op = stream->head; op != NULL && op->ticket < before; op = op->next)
        if (op_touches(op, base, bytes))
            return true;
    return false;
}

bool queue_uses(uintptr_t base, size_t bytes, const struct stream *except, uint64_t before) {
    for (struct context *context = context_next(NULL); context != NULL;
         context = context_next(context))
        for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
            if (stream != except && stream_uses(stream, base, bytes, before))
                return true;
    return false;
}

bool queue_is_walked(void) {
    return queue.walking;
}

size_t queue_pending(const struct context *context) {
    size_t count = 0;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        count += stream->queued;
    return count;
}

void queue_visible(struct stream *stream) {
    if (stream->head != NULL && stream->head->ticket <= stream->visible_ticket)
        worker_call(false);
}
