/* thread.h: what the calls of one thread have told so far. It must not be read by another thread.
 */
#ifndef THREAD_H
#define THREAD_H

#include "base/base.h"
#include "vramgc_format.h"

struct device;

enum { THREAD_MAX_EVENTS = 64 };

/* PyTorch's allocator makes certain calls right before others, on the same thread; that is how the
 * invisible becomes visible. */
struct thread_state {
    unsigned depth;                /* hooks this thread is inside of */
    unsigned vmm_depth;            /* of them of virtual memory management */
    bool context_seen;             /* a context was made inside the current hook */
    bool stream_asked;             /* the allocator has just asked whether a stream is captured */
    bool stream_capturing;         /* and it was */
    uint64_t stream;               /* that stream */
    unsigned frees_since_block;    /* segments the allocator freed since its latest block event */
    unsigned segments_since_block; /* and took */
    unsigned event_count;          /* recorded by the allocator since its latest block event */
    uint64_t events[THREAD_MAX_EVENTS]; /* the first of them */
    uint64_t soft_oom_bytes; /* the request that vramgc answered with out of memory; 0: none,
                               or it was asked again */
    uint64_t soft_oom_ns;
    uint64_t soft_oom_reserved_bytes;
    uint64_t soft_oom_used_bytes;
    uint32_t soft_oom_reason;
    bool soft_oom_retries; /* PyTorch counts a retry then */
    /* The driver refused, and the caller may ask again: as in the file, by sequence; or 0. */
    struct vramgc_refusal driver_oom;
    bool driver_oom_page;           /* it was for a page of a block of an expandable segment */
    bool asked_again;               /* since it was refused last */
    uint64_t unmapped_handle_bytes; /* made for an expandable segment and not mapped yet */
    uint64_t pending_block_bytes;  /* taken for a block that the allocator has not handed out yet */
    unsigned pending_block_device; /* and where */
    bool rest_is_left;             /* when it has, our own thread is to go on with a reclaim */
};

extern THREAD_LOCAL struct thread_state thread_state;

/* PyTorch's allocator has taken memory for a block, or mapped it; and has given up some of that. */
void thread_block_pending(struct device *device, uint64_t bytes);
void thread_block_unpending(uint64_t bytes);

#endif
