/* thread.h: what the calls of one thread have told so far, and how often hooked functions are
 * called, and fail. No other thread may read it, nor another room touch it but through the
 * functions below. */
#pragma once

#include "base/base.h"
#include "cuda/real.h"
#include "vramgc_format.h"

struct device;

/* Of one block: an event for each further stream that used it, which are a few. With more the block
 * counts as in use until it is handed out again. */
enum { THREAD_MAX_EVENTS = 64 };

/* The allocator has just asked whether a stream is captured. */
struct thread_stream {
    bool asked;
    bool capturing;  /* it was */
    uint64_t handle; /* of that stream */
};

/* The allocator's doings since its latest block event. */
struct thread_since_block {
    unsigned frees;                     /* segments it freed */
    unsigned segments;                  /* and took */
    bool emptied;                       /* it frees cached ones, of its own accord */
    bool recorded;                      /* that, for `vramgc whatif` */
    bool soft_oom;                      /* it frees them because vramgc told it to */
    bool refused;                       /* the block has no memory: its call fails */
    unsigned event_count;               /* events it recorded */
    uint64_t events[THREAD_MAX_EVENTS]; /* the first of them */
};

/* Memory taken for a block that the allocator has not handed out yet. */
struct thread_pending {
    uint64_t bytes;
    unsigned device; /* where */
};

/* The latest request that the driver refused, and its end:
 *
 *     state             what happens                              next
 *     NONE              a refusal                                 REFUSED, a new one in the file
 *     REFUSED           it is asked for again, as PyTorch does    ASKED_AGAIN, one retry
 *                       when it has emptied its cache
 *     ASKED_AGAIN       a refusal                                 REFUSED, the same one in the file
 *     REFUSED, _AGAIN   it comes                                  NONE, granted
 *     REFUSED, _AGAIN   PyTorch raises its error                  NONE, and the error is `told`
 *
 * Of an error that is told the rest is known when PyTorch asks for CUDA's latest error, and Python
 * has not gone on since: PyTorch has caught it; else when the thread asks for its next block: the
 * error has reached Python (oom.c, went_on). */
enum oom_state { OOM_NONE, OOM_REFUSED, OOM_ASKED_AGAIN };

/* A part of a model's step (hook/pass.c): how deep in others; who took its latest tensor, and the
 * first for which memory was mapped: none where all goes as recorded. */
struct thread_step {
    uint32_t depth, site, first_site;
};

struct thread_oom {
    enum oom_state state;
    struct vramgc_refusal refusal; /* as in the file, by sequence */
    bool of_page;                  /* it was a page of a block of an expandable segment */
    bool card_read;                /* the thread has read what is free since then */
    bool pool_trimmed;             /* it had not, and has trimmed a driver's pool since then */
    uint64_t seen_free_bytes, seen_idle_bytes; /* mode compact: as without us, then */
    struct vramgc_refusal told;   /* the latest that became an error; its sequence 0: none, or
                                     what came of it is known */
    uint64_t noted_ns;            /* when the latest of any kind was */
    uint64_t told_ns, told_block; /* when, and the thread's latest block then */
    uint64_t told_error;          /* the exception that Python handled then (names.h) */
    uint64_t told_place;          /* where Python was then */
    uint32_t told_caller;         /* who asked */
    bool told_in_python;          /* what it handles can be told */
};

/* PyTorch's allocator makes certain calls right before others, on the same thread; that is how the
 * invisible becomes visible. */
struct thread_state {
    bool is_ours; /* vramgc's own */
    struct thread_stream stream;
    struct thread_since_block since_block;
    struct thread_pending pending;
    struct thread_oom oom;
    struct thread_step step;
    uint64_t block;     /* address of the latest that it was given */
    const void *caller; /* of a call that may get memory: where it returns to (callers.h) */
    uint64_t unmapped_handle_bytes; /* made for an expandable segment and not mapped yet */
    uint64_t returned_bytes[VRAMGC_MAX_DEVICES]; /* what its calls gave back to the device so far */
};

extern THREAD_LOCAL struct thread_state thread_state;

/* True: there is a refusal of which nobody knows what becomes; the allocator has asked
 * for the same again. */
static inline bool oom_is_open(void) {
    return thread_state.oom.state != OOM_NONE;
}
static inline bool oom_is_asked_again(void) {
    return thread_state.oom.state == OOM_ASKED_AGAIN;
}

static inline bool thread_is_ours(void) {
    return thread_state.is_ours;
}
static inline void thread_becomes_ours(void) {
    thread_state.is_ours = true;
}

/* The latest question about a stream; it was for the segment that has just been asked for. */
static inline const struct thread_stream *thread_stream(void) {
    return &thread_state.stream;
}
static inline void thread_stream_is_used(void) {
    thread_state.stream.asked = false;
}

static inline const struct thread_since_block *thread_since_block(void) {
    return &thread_state.since_block;
}

/* Until its next block it frees segments because vramgc wants it to. */
static inline void thread_soft_oom_begins(void) {
    thread_state.since_block.soft_oom = true;
}

static inline uint64_t thread_unmapped_handle_bytes(void) {
    return thread_state.unmapped_handle_bytes;
}

static inline void thread_returned(unsigned device, uint64_t bytes) {
    thread_state.returned_bytes[device] += bytes;
}

static inline uint64_t thread_returned_bytes(unsigned device) {
    return thread_state.returned_bytes[device];
}

/* The allocator has handed out a block. */
static inline void thread_got_block(uint64_t address) {
    thread_state.block = address;
}
static inline bool thread_block_is_pending(void) {
    return thread_state.pending.bytes > 0;
}

/* PyTorch's allocator has taken memory for a block, or mapped it; and has given up some of that. */
void thread_block_pending(struct device *device, uint64_t bytes);
void thread_block_unpending(uint64_t bytes);

/* PyTorch's allocator has freed a segment, or unmapped pages of an expandable one. */
void thread_segment_freed(struct device *device);

/* On the way of every hook. */
void call_made(enum real_id id);
void call_failed(enum real_id id);

/* A call for memory reached the driver; one that vramgc cannot account for was passed on. */
void call_reached_driver(void);
void call_unaccounted(void);
