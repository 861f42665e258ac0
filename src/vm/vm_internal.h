/* vm_internal.h: what the files of this room share. */
#ifndef VM_INTERNAL_H
#define VM_INTERNAL_H

#include "base/lock.h"
#include "vm/costs.h"
#include "vm/vm.h"
#include "vm/page_table.h"
#include "cuda/real.h"

/* BATCH: pages unmapped between two looks; who needs one of them waits for the others. */
enum { MAX_STREAMS = 512, MAX_DEVICES = 32, BATCH = 64 };

/* A stream on which work may use our pages. Its event, made when it is first needed, tells how far
 * it is; of one that was destroyed it tells when its last work was over. */
enum slot_state { SLOT_FREE, SLOT_LIVE, SLOT_GONE };

struct known_stream {
    uint64_t stream;
    CUevent event;
    uint8_t state;
    bool pending; /* the fence under way waits for the event */
};

/* A fence under way: one event recorded on each of so many streams when the table's clock stood at
 * `epoch`. One thread at a time looks at it. */
struct fence {
    atomic_bool taken;
    bool pending;
    size_t streams;
    uint64_t epoch;
};

/* Physical memory without a place, of one size. There is room for all there is of it. */
struct handles {
    uint64_t *list;
    size_t count, total, capacity; /* total: wherever they are */
    uint64_t prefetched; /* one more, which nobody has asked for yet (prefetch.c); 0: none */
};

/* What the driver had left when it was last asked, and how many pages it had given then. */
struct asked {
    uint64_t time_ns;
    size_t free_bytes, total_bytes, handle_count;
};

/* What vm_decay remembers. */
struct decay_state {
    uint64_t pressure_ns;                 /* since when memory has been under pressure */
    uint64_t cached_ns;                   /* when cached_least was last looked at */
    uint64_t retained_epoch, retained_ns; /* the table's clock when it was last looked at */
    uint64_t trimmed_epoch;               /* and when vm_trim was last called */
};

/* spill.c: physical memory in the host's. */
struct host_memory {
    size_t room;                     /* pages: as many as there may be */
    _Atomic size_t count;            /* and are; changed under the lock */
    uint64_t *returning;             /* handles that have lost their place */
    size_t returning_count, leaving; /* not with the host yet */
    uint64_t epoch;                  /* of the table, when our own thread looked last */
    uint64_t since_ns, spent_ns;
    int node;
};

struct vm {
    unsigned device;
    CUcontext context;
    bool (*capturing)(void);
    double threshold_percent;
    bool lowvram; /* it is 0 */
    const struct costs *costs;
    struct plan plan;
    struct lock lock; /* what follows, up to the fence */
    struct page_table table;
    struct handles cached[EXTENT_SIZES]; /* handles without a place, by size */
    size_t cached_count, cached_least;   /* pages of them; and at least, since vm_decay looked */
    size_t handle_count;                 /* all physical pages, cached or mapped */
    size_t most_needed;                  /* pages that live blocks have needed at most at once */
    bool under_pressure;                 /* memory was not to be had lately: no large extents */
    size_t in_flight; /* pages on their way to the cache, handles on their way to the driver */
    uint64_t landed;  /* such ways that have come to their end */
    _Atomic size_t
        prefetch_npages;         /* pages of the extent that our own thread is to make; 0: none */
    atomic_bool prefetch_untold; /* it has not been told yet */
    size_t prefetching;          /* pages of the extent that it is just making */
    _Atomic uint64_t changes;    /* see vm_changes */
    _Atomic uint64_t calls;      /* that make, place, open or end memory and reached the driver */
    size_t opening; /* pages that cannot go because a further device is just getting access */
    struct known_stream streams[MAX_STREAMS];
    size_t stream_count;   /* places taken so far */
    size_t going;          /* streams that are about to be destroyed: wait for all */
    bool sync_context;     /* more streams than we can follow: wait for all */
    uint64_t unsure_epoch; /* pages idle since then may be used by a stream that we do not know */
    struct vm_figures figures;
    struct host_memory host;
    struct fence fence;
    struct decay_state decay;
    struct asked asked;
    CUmemAccessDesc access[MAX_DEVICES]; /* who may access our pages, ourselves first */
    size_t access_count;
    bool adding_peer; /* another device, just now */
};

static inline void vm_called(struct vm *vm) {
    atomic_fetch_add_explicit(&vm->calls, 1, memory_order_relaxed);
}

/* The figures are as they are to be told. */
static inline void vm_changed(struct vm *vm) {
    atomic_fetch_add_explicit(&vm->changes, 1, memory_order_release);
}

/* decommit.c. Pages that are BUSY lose their memory, whose handles are cached. Contiguous ones in
 * one call. A run that the driver refuses to unmap stays mapped. Returns how many pages lost
 * theirs. */
size_t vm_unmap(struct vm *vm, struct page **list, size_t count);

/* Those pages are in flight from now on. The lock is held. */
void vm_victims_picked(struct vm *vm, struct page *const *list, size_t count);

/* Up to so many idle pages become cached memory: of those that the GPU is known to have finished
 * with; of those that it can be found out of without waiting; of those that a wait tells of. */
size_t vm_decommit(struct vm *vm, size_t want);
size_t vm_decommit_fenced(struct vm *vm, size_t want);
size_t vm_decommit_for_block(struct vm *vm, size_t want);

/* decay.c. One batch, of up to so many extents: pages worth `want` that have been idle since that
 * epoch and with which the GPU has finished become cached memory. Returns how many. */
size_t vm_decommit_decayed(struct vm *vm, uint64_t epoch, size_t want, size_t extents);

/* access.c. Gives the devices access to so many pages from the first on, all of which are in use:
 * those that are mapped and not open yet. One call for those that follow each other. */
bool vm_set_access(struct vm *vm, struct page_segment *segment, size_t first, size_t count);

/* reserve.c. The addresses of segments that have ended go back once nothing is mapped there. */
void vm_sweep(struct vm *vm);

/* Unmaps what the GPU has finished with of segments retained since that epoch or before, the oldest
 * first, until at most so many are retained. */
void vm_decommit_retained(struct vm *vm, uint64_t epoch, size_t most);

/* range.c. Unmaps what the GPU has finished with of what was detached at that epoch or before. */
void vm_decommit_detached(struct vm *vm, uint64_t epoch);

/* reserve.c. Unmaps pages worth so many of ranges that have ended, if there are any, as far as the
 * GPU has finished with them. Returns how many. */
size_t vm_decommit_ended_ranges(struct vm *vm, size_t want);

/* handle_cache.c: what the driver has left, nearly: it is not asked all the time. */
struct room {
    bool under_pressure; /* it refused memory lately */
    uint64_t free_bytes, total_bytes;
    uint64_t idle_bytes; /* ours, mapped or cached */
};
struct room vm_room(struct vm *vm);

/* Physical memory without a place. The largest extent of at most so many pages; its size is written
 * to *npages. 0: none. */
uint64_t vm_cache_take(struct vm *vm, size_t most, size_t *npages);  /* the lock is held */
void vm_cache_put(struct vm *vm, uint64_t handle, size_t npages);    /* the same */
uint64_t vm_prefetch_take(struct vm *vm, size_t npages);             /* the same; 0: none */
void vm_prefetch_put(struct vm *vm, uint64_t handle, size_t npages); /* the same */
uint64_t vm_handle_create(struct vm *vm, size_t npages);             /* 0: the driver has none */
/* Releases cached memory worth so many pages, more only if there is nothing smaller; `larger` than
 * so many pages each. Returns how many. */
size_t vm_cache_trim(struct vm *vm, size_t want, size_t larger);

/* prefetch.c. An extent of so many pages was made for a block, or was there as a prefetched one:
 * our own thread is to make the next. 0: none. */
void vm_prefetch_want(struct vm *vm, size_t npages);
void vm_prefetch_cancel(struct vm *vm); /* memory is being given back */

/* fence.c. Waits until the GPU has finished with all pages that are idle now. False: it cannot be
 * waited for. */
bool vm_fence_wait(struct vm *vm);

/* The same without waiting: begins to find out, or finds that what was begun is over. Where no
 * events can tell, it waits if it may, else it finds out nothing. */
void vm_fence_poll(struct vm *vm, bool may_wait);

/* The same without waiting for the GPU, though another thread is asking just now. */
void vm_fence_poll_in_turn(struct vm *vm);

/* spill.c. Handles of host memory carry a mark; the real one is what the driver knows. */
bool vm_is_spilled(uint64_t handle);
uint64_t vm_real_handle(uint64_t handle);

/* One more page of host memory; 0: there may be none. */
uint64_t vm_spill(struct vm *vm);

/* Such a page has lost its place (the lock is held); it goes back to the host (it is not). */
void vm_spill_ends(struct vm *vm, uint64_t handle);
void vm_spill_return(struct vm *vm);

/* All that is idle, and that the GPU is known to have finished with, goes back to the host. */
void vm_spill_reclaim(struct vm *vm);

/* A block comes to these pages: those of them that are idle in host memory lose it where the device
 * has room by now. May wait for the GPU. */
void vm_spill_replace(struct vm *vm, uint64_t address, uint64_t bytes);

uint64_t vm_spilled_ns(const struct vm *vm); /* the lock is held */

/* probe.c: of the device's own memory; of such memory. */
bool vm_probe(unsigned device);
bool vm_probe_of(unsigned device, const CUmemAllocationProp *properties);

CUmemAllocationProp vm_properties(unsigned device);
CUmemAccessDesc vm_access_desc(unsigned device);

#endif
