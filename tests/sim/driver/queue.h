/* Streams as queues of work that runs late.
 *
 * An operation runs when somebody waits for it, when it is asked for a second time (ASKED), when
 * its simulated time has come (LATENCY=card) or, if the host could see its effect without asking, a
 * moment later on the driver's own thread. Until then it is really pending. Order: a ticket counts
 * submissions over all streams; within a stream tickets run in order; the legacy stream waits for
 * all earlier tickets of the blocking streams of its context, and they for the legacy stream's. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "driver.h"
#include "latency.h"

struct capture;

enum op_kind {
    OP_LAUNCH,
    OP_COPY,
    OP_FILL,
    OP_MARK, /* Event record. */
    OP_WAIT, /* Wait for an event. */
    OP_HOST,
    OP_WRITE_VALUE,
    OP_WAIT_VALUE,
    OP_TOUCH,
    OP_EXPECT,
    OP_USE,
    OP_POOL_ALLOC, /* Only inside graphs. */
    OP_POOL_FREE,
};

/* A point in a stream, or in a whole context, that others can wait for. Reference-counted. */
struct marker {
    unsigned references;
    struct stream *stream; /* Valid while not done; NULL: all streams of the context. */
    struct context *context;
    uint64_t ticket;
    uint64_t time_ns; /* When it is reached on the simulated clock. */
    bool done;
    unsigned asked; /* So many queries have been answered "not ready". */
};

struct copy_op {
    uintptr_t to, from;
    size_t width, height, depth; /* Bytes, rows, slices. */
    size_t to_pitch, from_pitch, to_slice, from_slice;
    /* A copy between peers reads and writes each side as its own device; NULL: as the stream's. */
    const struct device *to_device, *from_device;
    void *staged; /* Copy of a pageable source, freed after use. */
};

struct fill_op {
    uintptr_t to;
    uint32_t value;
    unsigned value_bytes;
    size_t width, height, pitch; /* Bytes. */
};

struct host_op {
    CUhostFn function;
    CUstreamCallback callback;
    CUstream handle; /* For the callback. */
    void *data;
};

struct value_op {
    uintptr_t address;
    uint64_t value;
    unsigned value_bytes, flags;
};

struct touch_op {
    uintptr_t address;
    size_t bytes;
    uint8_t value;
    bool write;
};

struct op {
    struct op *next;
    enum op_kind kind;
    bool visible; /* The host can see that it ran without asking. */
    uint64_t ticket, due_ns;
    union {
        struct copy_op copy;
        struct fill_op fill;
        struct marker *marker;
        struct host_op host;
        struct value_op value;
        struct touch_op touch;
        struct block *block;
    };
};

/* Up to which ticket of another stream later work of this stream is known to wait. */
struct known_order {
    unsigned long long stream_id;
    uint64_t ticket;
};

enum { KNOWN_ORDERS = 16 };

struct stream {
    CUstream handle; /* 0 for the legacy stream. */
    struct context *context;
    struct stream *next; /* In the context's list. */
    unsigned flags;
    int priority;
    unsigned long long id;
    struct op *head, *tail;
    size_t queued, with_address;
    uint64_t asked_ticket; /* So many queries of work up to here were answered "not ready". */
    unsigned asked;
    uint64_t visible_ticket; /* Work up to here runs without being asked for. */
    uint64_t timeline_ns;
    unsigned waiters;
    bool legacy, held, running, dying;
    struct known_order known[KNOWN_ORDERS]; /* The latest; older ones are forgotten. */
    unsigned next_known;
    struct capture *capture; /* NULL unless capturing. */
    struct frontier {
        struct node **nodes;
        size_t count;
    } frontier; /* What the next captured operation depends on. */
};

/* streams.c */
struct stream *stream_new(struct context *context, unsigned flags, int priority);
/* The stream a handle means in the calling thread; NULL if there is none. */
struct stream *stream_of(CUstream handle);
bool stream_is_blocking(const struct stream *stream);
/* The stream has been made to wait for a marker. */
void stream_learn(struct stream *stream, const struct marker *marker);
/* Will work submitted to the stream now run after a marker that is not reached yet? */
bool stream_follows(const struct stream *stream, const struct marker *marker);
void stream_destroy(struct stream *stream);
void streams_reap(void); /* Frees destroyed streams that have run dry. */
void streams_drop_context(struct context *context);

/* clock.c: the device's time, CLOCK_MONOTONIC for whoever does not set SIMGPU_CLOCK; and what the
 * machine's clock shows at a time of the device. */
void clock_begin(void);
uint64_t now_ns(void);
uint64_t machine_ns(uint64_t time_ns);

/* queue.c */
/* Queues a copy of *op, or captures it. cost_ns is used under LATENCY=card only; then the lock may
 * be let go, and the operation have run when this returns. The stream stays. */
CUresult queue_submit(struct stream *stream, const struct op *op, uint64_t cost_ns);
/* Waits return the sticky error of the context, if there is one. */
CUresult queue_wait_stream(struct stream *stream);
CUresult queue_wait_marker(struct marker *marker);
CUresult queue_wait_context(struct context *context);
void queue_wait_device(struct device *device);
/* CUDA_SUCCESS or CUDA_ERROR_NOT_READY. */
CUresult queue_query_stream(struct stream *stream);
CUresult queue_query_marker(struct marker *marker);
/* Does work that was queued before a ticket use a byte of the range? */
bool queue_uses(uintptr_t base, size_t bytes, const struct stream *except, uint64_t before);
size_t queue_pending(const struct context *context);
void queue_changed(void); /* Something a waiting thread may wait for has happened. */
/* Work of this stream that the host can see may be able to run now. */
void queue_visible(struct stream *stream);
/* Is the worker in the middle of the lists of streams, so that none may be freed? */
bool queue_is_walked(void);

struct marker *marker_new(struct stream *stream);
struct marker *marker_of_context(struct context *context, uint64_t cost_ns);
struct marker *marker_keep(struct marker *marker);
void marker_drop(struct marker *marker);

/* run.c: what an operation does when it runs */
bool op_is_ready(const struct op *op);
void op_run(struct stream *stream, struct op *op);
void op_release(struct op *op); /* Frees what the operation refers to, not the operation. */
bool op_touches(const struct op *op, uintptr_t base, size_t bytes);

#endif
