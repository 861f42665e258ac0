/* vm_internal.h: what the files of this room share. */
#pragma once

#include "base/lock.h"
#include "cuda/capture_mode.h"
#include "card/reading.h"
#include "card/generation.h"
#include "cuda/real.h"
#include "vm/page_table.h"
#include "vm/vm.h"

/* PyTorch has 32 streams of each of 4 priorities (c10/cuda/CUDAStream.cpp); beyond four times that
 * many the whole context is asked. No machine has so many devices. BATCH: extents unmapped between
 * two looks; who needs one of them waits for the others, 64 calls of 26 us
 * (kvcached's bench_vmm on an A100). */
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

/* A fence under way: one event recorded behind all work of the context, or on each of so many
 * streams, when the table's clock stood at epoch. One thread at a time looks at it. */
struct fence {
    atomic_uint taken; /* 1: a thread looks */
    atomic_bool whole; /* the driver tells of the whole context */
    atomic_bool vain;  /* it was waited for too long: no thread waits before it has passed */
    bool pending, context_pending;
    CUevent event; /* of the context */
    size_t streams;
    uint64_t epoch;
};

/* The streams on which work may use our pages. */
struct streams {
    struct known_stream slots[MAX_STREAMS];
    size_t count;      /* slots taken so far */
    size_t gone;       /* of them those of streams that were destroyed, and may still work */
    size_t going;      /* streams that are about to be destroyed: wait for all */
    bool sync_context; /* more streams than we can follow: wait for all */
};

/* Physical memory without a place, of one size, the longest cached first. There is room for all
 * there is of it. */
struct handles {
    struct cached_handle {
        uint64_t handle, since_ns;
    } * list;
    size_t count, total, capacity; /* total: wherever they are */
};

/* The latest reading of the card, and how much the engine had then. */
struct reading {
    struct meminfo card;
    uint64_t physical_bytes;
};

struct handle_cache {
    struct handles sizes[EXTENT_SIZES];
    uint64_t cached_pages;
    uint64_t physical_pages; /* all that the driver has given us, cached or mapped */
    struct generation moves; /* of that, by calls; under the lock */
    atomic_uint readers;     /* of the card: nothing decays meanwhile */
    struct reading reading;
};

/* Who may access our pages, the device itself first. */
struct peers {
    CUmemAccessDesc list[MAX_DEVICES];
    size_t count;
    bool adding; /* another one, just now */
};

/* Physical memory in the host's. */
struct host_memory {
    size_t room;                     /* pages: as many as there may be */
    _Atomic size_t count;            /* and are; changed under the lock */
    uint64_t *returning;             /* handles that have lost their place */
    size_t returning_count, leaving; /* not with the host yet */
    uint64_t epoch;                  /* of the table, when our own thread looked last */
    uint64_t since_ns, spent_ns;
    CUmemAllocationProp properties;
};

struct vm {
    unsigned device;
    CUcontext context;
    bool (*capturing)(void);
    double threshold_percent;
    bool lowvram;                   /* it is 0 */
    bool at_rest;                   /* see vm_unmap_at_rest */
    bool in_steps;                  /* mode flush: steps.c */
    atomic_bool keeps;              /* ... and what PyTorch unmaps stays for a moment */
    CUmemAllocationProp properties; /* of all that it makes */
    struct lock lock;               /* what follows, up to the fence */
    struct page_table table;
    struct handle_cache cache;
    struct host_memory host;
    struct streams streams;
    struct peers peers;
    struct vm_figures figures;
    size_t releasing;              /* pages on their way to the driver */
    uint64_t landed;               /* how often one has arrived */
    struct bell arrived;           /* a page is BUSY no more, or memory has come back */
    bool filled;                   /* the card was not roomy once: it may be so again */
    size_t opening;                /* pages that must stay because another device is being let in */
    _Atomic uint64_t changes;      /* see vm_changes */
    _Atomic uint64_t calls;        /* that make, place, open or end memory and reached the driver */
    size_t promised[EXTENT_SIZES]; /* to handles that are not mapped: steps.c */
    struct fence fence;
    struct {
        CUevent event; /* NULL: the driver does not tell of a whole context */
        _Atomic uint64_t epoch;
    } returned; /* when PyTorch last did so by a cudaFree */
};

/* The table's clock goes on; a test may have put it into the future. The lock is held. */
static inline void vm_set_clock(struct vm *vm) {
    vm->table.now_ns = max_u64(vm->table.now_ns, clock_ns());
}

/* The lock is held. */
static inline size_t vm_idle_pages(const struct vm *vm) {
    return vm->table.idle_pages[IDLE_KEPT] + vm->table.idle_pages[IDLE_RETURNED];
}

/* Pages losing their place, or on their way to the driver. The lock is held. */
static inline size_t vm_in_flight(const struct vm *vm) {
    return vm->table.in_flight_pages + vm->releasing;
}

/* Pieces of that size that are promised to no handle. The lock is held. */
static inline size_t vm_spare_steps(const struct vm *vm, size_t size) {
    size_t there = vm->cache.sizes[size].count + vm->table.idle[IDLE_RETURNED][size].count;
    return minus_u64(there, vm->promised[size]);
}

static inline uint64_t vm_read(struct vm *vm, const uint64_t *value) {
    LOCKED(&vm->lock);
    return *value;
}

/* The figures are as they are to be told; so they are after a call of the driver, which counts. */
static inline void vm_changed(struct vm *vm) {
    atomic_fetch_add_explicit(&vm->changes, 1, memory_order_release);
}

static inline void vm_called(struct vm *vm) {
    atomic_fetch_add_explicit(&vm->calls, 1, memory_order_relaxed);
    vm_changed(vm);
}

/* handles.c. Claimed pages get that memory, 0: there is none. False: they are empty again, and the
 * memory is cached. */
bool vm_map_claimed(struct vm *vm, struct page *page, size_t npages, uint64_t handle);

/* Pages that are BUSY lose their memory, which is cached. Contiguous ones in one call.
 * A run that the driver refuses to unmap stays mapped. Returns how many pages lost theirs. */
size_t vm_unmap(struct vm *vm, struct page **list, size_t count);

/* engine.c. One without pages yet, of the device's own memory, in the current context; NULL: there
 * is none, or no memory for it. */
struct vm *vm_new(unsigned device, bool (*capturing)(void));

/* decommit.c. So many extents at most lose their place, none that is promised unless it is said how
 * many of each size may go. Returns their pages. */
size_t vm_decommit_batch(struct vm *vm, const struct victims *victims, size_t extents);

/* Up to so many idle pages of that list become cached memory: of those that the GPU is
 * known to have finished with; the same after it was asked again. */
size_t vm_decommit(struct vm *vm, enum page_idle list, size_t want);
size_t vm_decommit_fenced(struct vm *vm, enum page_idle list, size_t want);

/* True: memory has come back, or is on its way, since vm->landed was `then`. Waits for that. */
bool vm_more_may_come(struct vm *vm, uint64_t then);

/* A block was refused something: idle memory goes back to the driver, which is asked what it has
 * left. Whether to try the block again; *attempts: at first 0. */
bool vm_ask_again(struct vm *vm, unsigned *attempts);

/* Memory for one page of a block that lacks so many; 0: really full. May wait for the GPU,
 * and for what another thread gives back. */
uint64_t vm_find_page(struct vm *vm, size_t missing);

/* An extent from the driver, before which cached memory goes back; 0: it has none. */
uint64_t vm_take_new(struct vm *vm, size_t npages);

/* True: pages have become idle since the GPU was last found to have finished. */
bool vm_newly_idle(struct vm *vm);

/* access.c. Lets the devices in to so many pages from the first on, all of which are in use: those
 * that are mapped and not open yet. One call for those that follow each other. */
bool vm_set_access(struct vm *vm, struct page_segment *segment, size_t first, size_t count);

/* Extents of [first, +count) that could not be opened for any device and are not used beyond them
 * lose their memory, which is cached. */
void vm_undo_closed(struct vm *vm, struct page_segment *segment, size_t first, size_t count);

/* probe.c. Notes what this thread was refused by the driver, of which the first is kept that is
 * no lack of memory; of other calls only what ends the whole context. */
bool vm_granted(CUresult result);
void vm_note_fault(CUresult result);
bool vm_lacks_memory(void); /* no such has been noted since: */
void vm_refusal_forget(void);

/* Before a request is refused: see OWN_SEGMENT_BYTES of page_table.h. */
void vm_drop_guards(struct vm *vm);

/* The addresses of segments that have ended go back once nothing is mapped there. */
void vm_sweep(struct vm *vm);

/* room.c: what the driver has left, by a reading that will do for that. All zero: it could
 * not be asked yet. */
struct room {
    int64_t spare_bytes; /* see card/reading.h */
    uint64_t free_bytes, total_bytes;
};
struct room vm_room(struct vm *vm, enum meminfo_need need);

/* How much of that may be asked for before more of the device is in use than the threshold. */
uint64_t room_below_threshold(const struct vm *vm, const struct room *room);

/* By the latest reading there is room with so many pages more; whether it is filled is seen, too.
 * Lock held. */
bool vm_is_roomy(struct vm *vm, size_t pages);

/* Before the first: books for all that a device has. False: there is no memory for them. */
bool vm_cache_open(struct vm *vm);

/* Physical memory without a place. The largest extent of at least and at most so many pages; its
 * size is written to *npages. 0: none. The lock is held. */
uint64_t vm_cache_take(struct vm *vm, size_t least, size_t most, size_t *npages);
void vm_cache_put(struct vm *vm, uint64_t handle, size_t npages); /* the same */
uint64_t vm_handle_create(struct vm *vm, size_t npages);          /* 0: the driver has none */

/* Since when the one cached for longest is; UINT64_MAX: none is. The lock is held. */
uint64_t vm_cache_since_ns(const struct vm *vm);

/* The pages of those that are since then or before. */
size_t vm_cache_pages_since(struct vm *vm, uint64_t since_ns);

/* Releases cached memory worth so many pages, more only if there is nothing smaller; `larger` than
 * so many pages each. Returns how many. */
size_t vm_cache_trim(struct vm *vm, size_t want, size_t larger);

/* The same for memory that no block waits for: it stops while a thread reads the card, and goes
 * later. */
size_t vm_cache_decay(struct vm *vm, size_t want);

/* fence.c. Waits until the GPU has finished with all pages that are idle now. False: it cannot be
 * waited for. */
bool vm_fence_wait(struct vm *vm);

/* PyTorch returns memory by a cudaFree, which alone would wait for all that the GPU was given so
 * far. Waits for just that, not for what came since. False: it cannot be waited for. */
void vm_fence_returned(struct vm *vm);
bool vm_fence_wait_returned(struct vm *vm);

/* As vm_fence_wait, for a tenth of a second at most, and only where events tell: where there is
 * memory still, and the GPU's work may be waiting for this thread. */
bool vm_fence_wait_briefly(struct vm *vm);

/* The same without waiting: begins to find out, or finds that what was begun is over. Where no
 * events can tell, it waits if it may, else it finds out nothing. */
void vm_fence_poll(struct vm *vm, bool may_wait);

/* The same without waiting for the GPU, though another thread is asking just now. */
void vm_fence_poll_in_turn(struct vm *vm);

/* True: unmapping would hold no thread up, for it never does, or the GPU has nothing to do now. */
bool vm_may_unmap(struct vm *vm);

/* handles.c. Handles of host memory carry a mark; the real one is what the driver knows. */
#define HOST_MARK ((uint64_t)1 << 63)
static inline bool vm_is_spilled(uint64_t handle) {
    return (handle & HOST_MARK) != 0;
}
static inline uint64_t vm_real_handle(uint64_t handle) {
    return handle & ~HOST_MARK;
}

/* One more page of host memory; 0: there is none. */
uint64_t vm_spill(struct vm *vm);

/* Pages that have lost their place go back to the host. */
void vm_spill_return(struct vm *vm);

/* All that was idle at that epoch, and that the GPU is known to have finished with, goes back to
 * the host. */
void vm_spill_reclaim(struct vm *vm, uint64_t epoch);

/* A block comes to these pages: those of them that are idle in host memory lose it where the device
 * has room by now. May wait for the GPU. */
void vm_spill_replace(struct vm *vm, uint64_t address, uint64_t bytes);

/* probe.c: of such memory. */
bool vm_probe(unsigned device, const CUmemAllocationProp *properties);

CUmemAllocationProp vm_properties(unsigned device);
CUmemAccessDesc vm_access_desc(unsigned device);
