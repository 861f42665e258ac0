/* record.h: one function for each thing that can happen to device memory. The hooks call these
 * around the real calls; everything vramgc knows comes through here. Any thread may call them. None
 * of them calls the driver with a lock held or waits for Python. Those that return nothing cannot
 * fail the caller; of the others it is said what the answer means for the call. Addresses, handles
 * and streams are CUDA's own as numbers, sizes are bytes; no pointer may be NULL unless said.
 *
 * Recording begins at the first use of CUDA in a process (record_ready) and ends in a forked child.
 * Until then only calls, contexts, streams and captures are noted; afterwards, and with
 * VRAMGC_MODE=off, all of these do nothing but count the call. */
#ifndef RECORD_H
#define RECORD_H

#include "base/base.h"
#include "cuda/real.h"
#include "vramgc_format.h"

enum record_class {
    CLASS_DEVICE,     /* cudaMalloc and its like */
    CLASS_POOL,       /* stream-ordered */
    CLASS_MANAGED,    /* migrates */
    CLASS_PINNED,     /* page-locked host memory made by the driver */
    CLASS_REGISTERED, /* host memory of the program, page-locked afterwards */
    CLASS_IMPORTED,   /* another process's memory */
    CLASS_GRAPH,      /* allocated while a stream was captured */
    CLASS_ADDRESS,    /* address space only */
    CLASS_PAGED,      /* a segment of the page engine: address space, pages come with blocks */
    CLASS_PAGED_POOL, /* a block of a stream-ordered pool of our own, on the page engine */
    CLASS_COUNT
};

enum { RECORD_MAX_EVENTS = 64 };

/* What the calls of one thread have told so far. PyTorch's allocator makes certain calls right
 * before others, on the same thread; that is how the invisible becomes visible. */
struct record_thread {
    unsigned depth;                /* hooks this thread is inside of */
    unsigned vmm_depth;            /* of them of virtual memory management */
    bool context_seen;             /* a context was made inside the current hook */
    bool stream_asked;             /* the allocator has just asked whether a stream is captured */
    bool stream_capturing;         /* and it was */
    uint64_t stream;               /* that stream */
    unsigned frees_since_block;    /* segments the allocator freed since its latest block event */
    unsigned segments_since_block; /* and took */
    unsigned event_count;          /* recorded by the allocator since its latest block event */
    uint64_t events[RECORD_MAX_EVENTS]; /* the first of them */
    uint64_t refused_bytes; /* the request answered with out of memory, until it is asked again */
    uint64_t refused_ns;
    uint64_t refused_reserved_bytes;
    uint64_t refused_used_bytes;
    uint32_t refused_reason;
    bool refused_retries; /* PyTorch counts a retry then */
    /* The driver refused, and the caller may ask again: as in the file, by sequence; or 0. */
    struct vramgc_refusal refusal;
    bool refused_page;          /* it was for a page of a block of an expandable segment */
    bool asked_again;           /* since it was refused last */
    uint64_t pages_ahead_bytes; /* made for an expandable segment and not mapped yet */
    uint64_t arriving_bytes;    /* taken for a block that the allocator has not handed out yet */
    unsigned arriving_device;   /* and where */
    bool rest_is_left;          /* when it has, our own thread is to go on with a reclaim */
};

extern THREAD_LOCAL struct record_thread record_thread;

enum record_state { RECORD_ASLEEP, RECORD_ON, RECORD_INERT };
extern atomic_int record_state;

static inline bool record_is_on(void) {
    return atomic_load_explicit(&record_state, memory_order_relaxed) == RECORD_ON;
}

/* Begins recording if this is the first use of CUDA. Whether recording is on. */
bool record_ready(void);

/* The same before a call has succeeded: begins only where this thread has a context, for a process
 * without a usable device shall stay silent. */
bool record_ready_in_context(void);

/* cuInit succeeded: nothing is written yet, but settings are read, and PyTorch's allocator is
 * given expandable segments if nobody chose for or against them. */
void record_cuda_begins(void);

/* An allocation succeeded. allocator: the caller is PyTorch's caching allocator. */
void record_allocated(enum record_class class, uint64_t address, uint64_t bytes, bool allocator);

/* What a free took out of the books, to be put back should the driver refuse. */
struct record_taken {
    bool known;
    bool segment; /* of PyTorch's allocator */
    bool block;   /* of PyTorch's allocator, from a stream-ordered pool */
    bool shared;  /* imported memory that was opened more than once: it stays */
    uint64_t address, bytes;
    uint32_t class;
    unsigned device;
    uint64_t context; /* in which it was made, if it goes with it; else 0 */
};

void record_take(uint64_t address, struct record_taken *taken);
void record_put_back(const struct record_taken *taken);
void record_gone(const struct record_taken *taken);

/* The driver refused for lack of device memory; and the caller asked again and got it. */
void record_refused(enum real_id id, uint64_t bytes);
void record_granted(uint64_t bytes);

/* The driver refused PyTorch's allocator a page of an expandable segment. Which block it was for
 * shows when that block, or an out-of-memory error, comes on the same thread. */
void record_page_refused(uint64_t bytes);

/* Whether this cudaMalloc is to be answered with out of memory, so that PyTorch's allocator empties
 * its cache and asks again. allocator: as above; for others never, but a reclaim that is due is
 * left to the ticker. */
bool record_refuse_segment(bool allocator, uint64_t bytes);

/* Mode compact: a segment of PyTorch's allocator out of address space, whose pages come with its
 * blocks (src/pages). NOT_PAGED: the driver is to be asked. */
enum record_paged { RECORD_NOT_PAGED, RECORD_PAGED, RECORD_PAGED_REFUSED };
enum record_paged record_paged_segment(uint64_t bytes, void **out);

/* Frees it, or a block of our own pool. False: the driver is to be asked. */
bool record_paged_end(const struct record_taken *taken);

/* Mode compact with VRAMGC_ASYNC=pages: a stream-ordered allocation from the device's default pool
 * out of a pool of our own, and its release on a stream. NOT_PAGED, false: as above. */
struct record_ordered {
    enum real_id id;
    uint64_t bytes, stream;
    CUmemoryPool pool; /* NULL: the current one of the device */
    bool allocator;
};
enum record_paged record_pool_take(const struct record_ordered *call, void **out);
#define RECORD_NO_STREAM UINT64_MAX /* cudaFree */
bool record_pool_give(enum real_id id, const struct record_taken *taken, uint64_t stream);

/* After the driver has answered for a pool: our part of the figure; a high mark was reset; it was
 * trimmed; other devices were let in, which is false if ours could not be opened to them. */
void record_pool_attribute(CUmemoryPool asked, CUmemPool_attribute attribute, void *value);
void record_pool_attribute_set(CUmemoryPool asked, CUmemPool_attribute attribute);
void record_pool_trim(CUmemoryPool asked);
bool record_pool_access(CUmemoryPool asked, const CUmemAccessDesc *access, size_t count);

/* The driver refused somebody else: whether vramgc gave something back, so that asking again may
 * help. */
bool record_rescue(uint64_t bytes);

/* The free bytes that cudaMemGetInfo is to tell. */
uint64_t record_free_as_seen(uint64_t free_bytes);

/* A stream was made in the current context, or in a green one that cannot be followed; and one is
 * about to be destroyed. */
void record_stream_made(uint64_t stream);
void record_green_stream_made(void);
void record_stream_gone(uint64_t stream);

/* Where an address lies that belongs to a paged segment; false: it belongs to none. To the program
 * a segment is one allocation made by cudaMalloc in that context; or (mapped) what it has mapped of
 * an expandable segment, with one handle. */
enum { RECORD_PAGE_BYTES = 2 << 20 };
struct record_place {
    unsigned device;
    uint64_t address, bytes; /* of the segment */
    uint64_t context;
    bool mapped;
};
bool record_place(uint64_t address, struct record_place *place);

/* Somebody is about to hold on to the physical memory of the range: its pages stay where they are
 * until the segment ends. False: they cannot be had. Addresses that are not paged are fine. */
bool record_pin(uint64_t address, uint64_t bytes);

/* One device may access the memory of another from now on. */
void record_peer_access(unsigned accessing, unsigned owner);

/* Whether a copy goes from one device to another and touches paged memory; which devices. */
bool record_between_devices(uint64_t to, uint64_t from, int *to_device, int *from_device);

/* The driver refused to share the memory with other processes. */
void record_ipc_refused(uint64_t address);

/* Virtual memory management. allocator: as above. */
void record_reserved(uint64_t address, uint64_t bytes, bool allocator);
struct record_taken record_range_take(uint64_t address);
void record_range_put_back(const struct record_taken *range);
void record_range_gone(const struct record_taken *range);
void record_created(uint64_t handle, uint64_t bytes, const CUmemAllocationProp *properties,
                    bool allocator);
void record_imported_handle(uint64_t handle);
void record_retained(uint64_t handle, uint64_t address);

/* A reference to physical memory, taken out of the books before cuMemRelease, to be put back should
 * the driver refuse. */
struct record_release {
    bool known;
    bool gone; /* it was the last reference, and nothing is mapped: the entry left the books */
    uint16_t flags;
    unsigned device;
    uint64_t handle, bytes;
    uint64_t orphan; /* the last reference, but mapped: the name under which it lives on; or 0 */
};

struct record_release record_release_begin(uint64_t handle);
void record_release_failed(const struct record_release *release);

/* The mappings that an unmap took out of the books: so many tickets from the first on. */
struct record_unmapping {
    uint64_t address, bytes;
    uint64_t first, count;
};

void record_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
struct record_unmapping record_unmap_begin(uint64_t address, uint64_t bytes);
void record_unmap_failed(const struct record_unmapping *unmapping);
void record_unmap_done(const struct record_unmapping *unmapping);
void record_driver_call(void);

/* Blocks of PyTorch's allocator: bytes > 0 handed out, < 0 given back. The hot path. False (mode
 * compact): no memory can be had for the block; it must not reach its user. */
bool record_block(unsigned device, uint64_t address, int64_t bytes);
void record_out_of_memory(unsigned device, uint64_t bytes); /* the request that failed */

/* Calls of PyTorch's allocator that explain its blocks. */
void record_stream_asked(uint64_t stream, bool capturing);
void record_event(uint64_t event);
void record_event_done(uint64_t event);
void record_event_gone(uint64_t event); /* it is about to be destroyed */

/* Captures, by stream; the per-thread stream is CU_STREAM_PER_THREAD. A capture counts as begun
 * before the real call: whether it was not known before, and is to be ended should the call fail.
 */
bool record_capture_begin(uint64_t stream);
void record_capture_end(uint64_t stream);
void record_capture_end_failed(uint64_t stream); /* the real call did; it may be ended or not */

/* Whether any stream is captured; and whether this one is. */
bool record_capturing(void);
bool record_captured(uint64_t stream);

void record_memory_info(uint64_t free_bytes, uint64_t total_bytes);
void record_reset(unsigned device);

/* The primary context of a device: which it is; our own thread stops using it, which returns
 * whether it did; it uses it again; it was released for the last time. */
void record_primary_context(unsigned device, CUcontext context);
CUcontext record_primary(unsigned device); /* NULL: not known */
bool record_primary_leave(unsigned device);
void record_primary_stays(unsigned device);
void record_primary_gone(unsigned device);

/* Another context, made with cuCtxCreate, is gone with what was allocated in it. */
void record_context_gone(CUcontext context);
void record_unaccounted(void);
void record_call(enum real_id id);
void record_call_failed(enum real_id id);

#endif
