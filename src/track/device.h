/* device.h: whether this process records, and of which devices, each with its heap and the context
 * in which vramgc's own thread works.
 *
 * The room has a book for each kind of thing that a call brings into being: allocations by address
 * (alloc.h), blocks that wait for events (block.h), streams and captures (stream.h), callers
 * (callers.h); physical handles, mappings and ranges stand in vm/book.h, segments and blocks in
 * each device's heap. Out of them come the figures of the file.
 *
 * Invariant: a record is in its book only while the thing exists. An allocation is recorded after
 * the call; a free takes the record out before it, and puts it back where the driver refuses: in
 * between another thread may get the same address. No lock is held across a call. */
#pragma once

#include "base/base.h"
#include "base/lock.h"
#include "base/options.h"
#include "heap/heap.h"
#include "card/reading.h"
#include "cuda/real.h"
#include "store/store.h"
#include "track/owners.h"
#include "vm/vm.h"

/* Recording begins at the first use of CUDA (process/start.h) and ends in a forked child. */
enum recording_state { RECORDING_ASLEEP, RECORDING_ON, RECORDING_INERT };
extern atomic_int recording_state;

static inline bool recording_is_on(void) {
    return atomic_load_explicit(&recording_state, memory_order_relaxed) == RECORDING_ON;
}

/* Stream-ordered pools: alloc.c and mempool.c. */
struct device_pool {
    uint64_t live_bytes;        /* what PyTorch's allocator has from them */
    uint64_t blocks;            /* how many blocks that are */
    bool of_pytorch;            /* it has had any: then the pool is its cache */
    uint64_t idle_bytes;        /* reserved by pools beside what is allocated from them */
    uint64_t changes;           /* how often a call of the program has changed that */
    uint64_t seen;              /* of them those that the driver was asked after */
    uint64_t used_bytes;        /* what the program has from the driver's pools */
    uint64_t since_ns;          /* when the time began of which mempool.c knows: */
    uint64_t most_bytes;        /* the most that was used at once since then */
    uint64_t most_before_bytes; /* and in the time before that one */
};

/* A pool of our own: pages that its blocks reach into, and what is in them. */
struct device_own_pool {
    uint64_t page_bytes, used_bytes;
    uint64_t together_bytes; /* highest of used_bytes and the driver's pools at one moment */
};

/* Free and total, as the driver told them, within the limits of card/reading.h. */
struct device_memory {
    _Atomic uint64_t total_bytes;    /* of the device; 0: not known yet */
    _Atomic int64_t spare_and_held;  /* spare bytes and held outside pools, at the latest reading */
    _Atomic uint64_t limited_bytes;  /* free then, but kept by the limits */
    _Atomic uint64_t headroom_bytes; /* of them, for others */
    _Atomic uint64_t read_ns;        /* when that was */
    _Atomic uint64_t cost_ns;        /* and what readings cost */
    _Atomic bool beside;             /* some came or went meanwhile */
    _Atomic uint64_t told_bytes;     /* free, as the program was told last */
};

struct device_holes {
    struct frag_figures figures; /* when they were last measured */
    uint64_t until_ns;           /* so long they will do for a refusal */
};

/* Its page engine (mode compact), or the engine of PyTorch's own steps (mode flush). */
struct device_paging {
    _Atomic(struct vm *) vm, steps;
    _Atomic bool tried;            /* to open it, whichever it is */
    _Atomic uint64_t changes_seen; /* of the engine, when its figures were last taken */
    uint64_t held_bytes;           /* of the engine's, in held_bytes by then; under the lock */
    uint64_t calls;                /* the same: of steps, in driver_calls */
};

struct device {
    struct lock lock; /* the heap and its figures in the file */
    struct heap *heap;
    struct vramgc_device *out;
    struct device_pool pool;
    struct vramgc_gauge step_bytes; /* of other_bytes: made for a step (vmm.h), no tensor in it */
    struct device_own_pool own_pool;
    struct device_memory memory;
    struct device_holes holes;
    struct device_paging paging;
    struct growth growth;
    struct owners owners;           /* the lock */
    struct owners_lists oom_before; /* of the out-of-memory before the latest */
    uint64_t listed_events;         /* of blocks, when they were last listed */
    bool listed_rest;               /* and there is a point of after the latest of them */
    CUcontext context;              /* in which our own thread may ask */
    _Atomic uint64_t pending_bytes; /* see device_releasable_bytes */
    _Atomic bool expandable;        /* PyTorch has mapped memory itself */
    _Atomic bool ready;
};

/* NULL when the index is out of range or the device cannot be kept track of. */
struct device *device_at(unsigned index);

/* The same without bringing the device up. */
struct device *device_if_ready(unsigned index);

/* Those that are ready: for (EACH_DEVICE(device)). */
struct device *device_next(const struct device *before); /* NULL: the first; none is left */
#define EACH_DEVICE(each)                                                                          \
    struct device *each = device_next(NULL);                                                       \
    each;                                                                                          \
    each = device_next(each)

/* The device of this thread's current context; NULL when there is none. */
struct device *device_current(void);

/* The bytes that this process holds of a device, of that one; see card/reading.h. */
uint64_t device_own_bytes(struct device *device);
bool device_own(struct card_own *own);
unsigned device_index(const struct device *device);

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

/* Writes down whose live memory was at its highest since the last call, and at the peak if that is
 * a new one. For one thread only, after store_sample;
 * step_ns as in store_who. */
void device_list_owners(struct device *device, uint64_t step_ns);

/* Writes down whose it is now, at an out-of-memory, or, again, at its next attempt. */
void device_list_oom_owners(struct device *device, bool again);

/* There was no out-of-memory, after all: who had memory at the one before is told again, or, of the
 * first, nobody where even that is of no use. */
void device_forget_oom_owners(struct device *device, bool even_alone);

/* Where such memory lies; NULL: not on a device that is recorded. */
struct device *device_of_memory(const CUmemAllocationProp *properties);

/* As much as emptying PyTorch's cache would give back. Memory that a thread has just taken for a
 * block that has not come yet looks as if it were free, and is none of it. */
uint64_t device_releasable_bytes(const struct device *device);

/* The page engine of the device (mode compact); NULL: none. On the way of every block event. */
static inline struct vm *device_pages(struct device *device) {
    return atomic_load_explicit(&device->paging.vm, memory_order_acquire);
}

/* The engine of PyTorch's own steps (mode flush); whichever the device has. */
static inline struct vm *device_steps(struct device *device) {
    return atomic_load_explicit(&device->paging.steps, memory_order_acquire);
}
static inline struct vm *device_engine(struct device *device) {
    return device_pages(device) ? device_pages(device) : device_steps(device);
}

/* By index; NULL too where the device is not in use or nothing is recorded. */
static inline struct vm *device_pages_at(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    return device ? device_pages(device) : NULL;
}
static inline struct vm *device_steps_at(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    return device ? device_steps(device) : NULL;
}
static inline struct vm *device_engine_at(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    return device ? device_engine(device) : NULL;
}

/* So much more is held, which is not the page engine's. */
void device_hold(struct device *device, uint64_t bytes);

/* Brings the figures of its physical memory up to date; and what of it could go back. */
void device_account_pages(struct device *device);
uint64_t device_idle_page_bytes(struct device *device);

/* The primary context of a device: which it is; our own thread stops using it, which returns
 * whether it did; it uses it again. */
void context_primary_made(unsigned device, CUcontext context);
CUcontext context_primary(unsigned device); /* NULL: not known */
bool context_primary_leave(unsigned device);
void context_primary_stays(unsigned device);

/* A context is gone: our own thread does not work in it any more. */
void context_gone(CUcontext context);
