/* device.h: what the files of this room share: the devices with their heaps, and the settings. */
#ifndef DEVICE_H
#define DEVICE_H

#include "base/base.h"
#include "base/lock.h"
#include "base/options.h"
#include "heap/frag.h"
#include "heap/heap.h"
#include "vm/vm.h"
#include "policy/policy.h"
#include "cuda/real.h"
#include "store/store.h"

struct device {
    struct lock lock; /* the heap and its figures in the file */
    struct heap *heap;
    struct vramgc_device *out;
    uint64_t pool_live_bytes; /* what PyTorch's allocator has from stream-ordered pools */
    uint64_t pool_blocks;     /* how many blocks that are */
    bool pool_of_pytorch;     /* it has had any: then the pool is its cache */
    uint64_t pool_idle_bytes; /* reserved by pools beside what is allocated from them */
    uint64_t pool_changes;    /* how often a call of the program has changed that */
    /* A pool of our own: pages that its blocks reach into, and what is in them. */
    uint64_t paged_pool_bytes, paged_pool_used_bytes;
    struct frag_figures holes;  /* when they were last measured */
    uint64_t holes_until_ns;    /* so long they will do for a refusal */
    struct policy_state policy; /* under policy_lock */
    struct lock policy_lock;
    CUcontext context;                /* in which our own thread may ask */
    _Atomic uint64_t total_bytes;     /* of the device; 0: not known yet */
    _Atomic uint64_t free_bytes;      /* at the latest reading */
    _Atomic uint64_t free_read_ns;    /* when that was */
    _Atomic uint64_t held_then_bytes; /* held outside pools at that moment */
    _Atomic uint64_t arriving_bytes;  /* see device_releasable_bytes */
    _Atomic bool expandable;          /* PyTorch has mapped memory itself */
    _Atomic bool asked;               /* vramgc_reclaim was called */
    _Atomic bool unfinished;          /* a refusal gave back only a part of what is releasable */
    _Atomic bool overcommitted;       /* PyTorch's cache is to be emptied: govern/overcommit.c */
    _Atomic bool wanted;              /* a reclaim was due where it could not be done */
    atomic_int verdict;               /* why it could not: enum soft_oom */
    _Atomic(struct pages *) pages;    /* mode compact */
    _Atomic bool pages_tried;
    _Atomic uint64_t page_changes; /* of the engine, when its figures were last taken */
    _Atomic bool ready;
};

/* NULL when the index is out of range or the device cannot be kept track of. */
struct device *device_at(unsigned index);

/* The same without bringing the device up. */
struct device *device_if_ready(unsigned index);

/* The device of this thread's current context; NULL when there is none. */
struct device *device_current(void);
unsigned device_index(const struct device *device);

/* For a forked child: locks open. */
void devices_forget(void);

/* Copies the heap's figures into the file; the device's lock must be held. */
void device_publish(struct device *device);

/* The same after a block event, which changes neither what is reserved nor the segments. */
void device_publish_blocks(struct device *device);

/* Walks the heap, with the device's lock, and copies what it finds of holes into the file. It takes
 * a time that grows with the blocks, during which none can be handed out. Unless it must be now, a
 * ninth of the time at most goes into it, and the figures may be so much older, 10 ms at most. */
struct frag_figures device_measure_holes(struct device *device, bool now);

/* Adds a block event to the mean of held over live; the device's lock must be held. */
void device_add_to_mean(struct device *device);

/* Asks the driver for free and total. False when that failed. */
bool device_read_memory(struct device *device);

/* Somebody asked the driver for free and total. */
void device_note_memory(struct device *device, uint64_t free_bytes, uint64_t total_bytes);

/* Counts a reclaim and writes it down. */
void device_conclude(struct device *device, const struct vramgc_action *action);

/* Tells the policy of a reclaim, done or (observe) recorded, as the device is now. */
void device_acted(struct device *device);

/* Free bytes of the device: the latest reading, and what this process took or gave since. */
uint64_t device_free_bytes(const struct device *device);
uint64_t device_used_bytes(const struct device *device);

/* What emptying PyTorch's cache would give back. What a thread has just taken for a block that has
 * not come yet looks as if it were free, and is none of it. */
uint64_t device_releasable_bytes(const struct device *device);

const struct options *record_options(void);
struct policy_settings record_policy_settings(void);

/* The policy's word in the file. */
static inline uint32_t action_reason(enum policy_reason reason) {
    switch (reason) {
    case POLICY_THRESHOLD:
        return VRAMGC_REASON_THRESHOLD;
    case POLICY_LOWVRAM:
        return VRAMGC_REASON_LOWVRAM;
    case POLICY_ASKED:
        return VRAMGC_REASON_REQUEST;
    case POLICY_NO_REASON:
        break;
    }
    return VRAMGC_REASON_NONE;
}

/* govern/induce_oom.c: a cudaMalloc of PyTorch's allocator in this thread. Whether it may be answered with
 * out of memory, so that PyTorch empties its cache and asks again; that it is (retries: PyTorch
 * will count that); and whether this is the one that asks again. */
bool segment_may_refuse(struct device *device);
void segment_begin_refusal(struct device *device, uint64_t bytes, uint32_t reason, bool retries);
bool segment_refusal_ended(struct device *device, uint64_t bytes);

/* PyTorch's allocator has taken memory for a block, or mapped it; has given up some of that; and
 * the block has come, in the same thread. */
void segment_taken(struct device *device, uint64_t bytes);
void segment_given_up(uint64_t bytes);
void segment_block_came(struct device *device);

/* oom.c, on the thread that was refused memory: PyTorch's allocator asks for a segment, or for
 * a page of an expandable one, perhaps again; and the block it was for has come or has not. */
void refusal_of_block(struct device *device, uint64_t bytes); /* mode compact: it has no pages */
void refusal_segment_asked(struct device *device, uint64_t bytes);
void refusal_page_asked(struct device *device);
void refusal_ends(uint64_t bytes, bool granted);

/* govern/mode.c: the mode and the reason, in the file. mode_begin: recording starts, and PyTorch's version
 * and setting stand in the file; maps: all devices say that they can map memory. mode_pages, before
 * PyTorch's allocator gets a segment: whether it may get its memory page by page. mode_tried: the
 * self-test of a device. mode_say writes it to the log when it is certain, or `last`. */
void mode_begin(int driver, bool maps);
bool mode_pages(const struct device *device);
void mode_tried(const struct device *device, bool passed);
void mode_say(bool last);
void mode_unlock(void);

/* govern/background_thread.c */
bool ticker_start(void);
void ticker_kick(void); /* it looks at once */
void ticker_wake(void); /* it makes spare memory and takes the next step of govern/decay.h at once */
void ticker_stop(void);

/* alloc.c, vmm.c, block.c: drop what is known of a device; lock: open locks in a child. */
void memory_reset(unsigned device);
void memory_context_gone(CUcontext context);
void memory_unlock(void);
void vmm_reset(unsigned device);
void vmm_unlock(void);
void blocks_reset(unsigned device);
void blocks_unlock(void);
void capture_reset(unsigned device);
void capture_unlock(void);

#endif
