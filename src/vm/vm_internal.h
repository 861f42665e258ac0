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
enum stream_state { STREAM_NONE, STREAM_LIVE, STREAM_GONE };

struct known_stream {
    uint64_t stream;
    CUevent event;
    uint8_t state;
    bool pending; /* the settling under way waits for the event */
};

/* A settling under way: one event recorded on each of so many streams when the table's clock stood
 * at tick. One thread at a time looks at it. */
struct settling {
    atomic_bool taken;
    bool pending;
    size_t streams;
    uint64_t tick;
};

/* Physical memory without a place, of one size. There is room for all there is of it. */
struct handles {
    uint64_t *list;
    size_t count, total, capacity; /* total: wherever they are */
    uint64_t spare;                /* one more, which nobody has asked for yet (prefetch.c); 0: none */
};

/* What the driver had left when it was last asked, and how many pages it had given then. */
struct asked {
    uint64_t time_ns;
    size_t free_bytes, total_bytes, handle_count;
};

/* What pages_expire remembers. */
struct patience {
    uint64_t scarce_ns;              /* when memory was last seen to be scarce */
    uint64_t kept_ns;                /* when kept_least was last looked at */
    uint64_t parked_tick, parked_ns; /* the table's clock when it was last looked at */
    uint64_t trimmed_tick;           /* and when pages_trim was last called */
};

/* spill.c: physical memory in the host's. */
struct host_memory {
    size_t room;                     /* pages: as many as there may be */
    _Atomic size_t count;            /* and are; changed under the lock */
    uint64_t *returning;             /* handles that have lost their place */
    size_t returning_count, leaving; /* not with the host yet */
    uint64_t tick;                   /* of the table, when our own thread looked last */
    uint64_t since_ns, spent_ns;
    int node;
};

struct pages {
    unsigned device;
    CUcontext context;
    bool (*capturing)(void);
    double threshold_percent;
    bool frugal; /* it is 0 */
    const struct costs *costs;
    struct plan plan;
    struct lock lock; /* what follows, up to the settling */
    struct page_table table;
    struct handles kept[PAGE_SIZES]; /* handles without a place, by size */
    size_t kept_count, kept_least;   /* pages of them; and at least, since pages_expire looked */
    size_t handle_count;             /* all physical pages, kept or mapped */
    size_t most_needed;              /* pages that live blocks have needed at most at once */
    bool scarce;                     /* memory was not to be had lately: no large pieces */
    size_t moving;             /* pages on their way to kept, handles on their way to the driver */
    uint64_t moved;            /* such ways that have come to their end */
    _Atomic size_t spare_span; /* pages of the piece that our own thread is to make; 0: none */
    atomic_bool spare_unsaid;  /* it has not been told yet */
    size_t making;             /* pages of the piece that it is just making */
    _Atomic uint64_t changes;  /* see pages_changes */
    _Atomic uint64_t calls;    /* that make, place, open or end memory and reached the driver */
    size_t opening;            /* pages that cannot go because a further device is just let in */
    struct known_stream streams[MAX_STREAMS];
    size_t stream_count;  /* places taken so far */
    size_t going;         /* streams that are about to be destroyed: wait for all */
    bool whole_context;   /* more streams than we can follow: wait for all */
    uint64_t unsure_tick; /* pages idle since then may be used by a stream that we do not know */
    struct pages_figures figures;
    struct host_memory host;
    struct settling settling;
    struct patience patience;
    struct asked asked;
    CUmemAccessDesc access[MAX_DEVICES]; /* who may access our pages, ourselves first */
    size_t access_count;
    bool letting_in; /* another device, just now */
};

static inline void pages_called(struct pages *pages) {
    atomic_fetch_add_explicit(&pages->calls, 1, memory_order_relaxed);
}

/* The figures are as they are to be told. */
static inline void pages_changed(struct pages *pages) {
    atomic_fetch_add_explicit(&pages->changes, 1, memory_order_release);
}

/* decommit.c. Pages that are WORKING lose their memory, which is kept. Contiguous ones in one call. A
 * run that the driver refuses to unmap stays mapped. Returns how many pages lost theirs. */
size_t pages_unmap(struct pages *pages, struct page **list, size_t count);

/* What was picked is on its way. The lock is held. */
void pages_picked(struct pages *pages, struct page *const *list, size_t count);

/* Up to so many idle pages become kept memory: of those that the GPU is known to have finished
 * with; of those that it can be found out of without waiting; of those that a wait tells of. */
size_t pages_purge(struct pages *pages, size_t want);
size_t pages_purge_settled(struct pages *pages, size_t want);
size_t pages_purge_for_block(struct pages *pages, size_t want);

/* decay.c. One batch, of up to so many pieces: pages worth `want` that have been idle since that tick
 * and with which the GPU has finished become kept memory. Returns how many. */
size_t pages_unmap_old(struct pages *pages, uint64_t tick, size_t want, size_t pieces);

/* access.c. Lets the devices in to so many pages from the first on, all of which are in use: those
 * that are mapped and not open yet. One call for those that follow each other. */
bool pages_open_to_all(struct pages *pages, struct page_segment *segment, size_t first,
                       size_t count);

/* reserve.c. The addresses of segments that have ended go back once nothing is mapped there. */
void pages_sweep(struct pages *pages);

/* Unmaps what the GPU has finished with of segments parked since that tick or before, the oldest
 * first, until at most so many are parked. */
void pages_purge_parked(struct pages *pages, uint64_t tick, size_t allowed);

/* range.c. Unmaps what the GPU has finished with of what was revoked at that tick or before. */
void pages_purge_revoked(struct pages *pages, uint64_t tick);

/* reserve.c. Unmaps pages worth so many of ranges that have ended, if there are any, as far as the
 * GPU has finished with them. Returns how many. */
size_t pages_purge_ended_ranges(struct pages *pages, size_t want);

/* handle_cache.c: what the driver has left, nearly: it is not asked all the time. */
struct room {
    bool scarce; /* it refused memory lately */
    uint64_t free_bytes, total_bytes;
    uint64_t idle_bytes; /* ours, mapped or kept */
};
struct room pages_room(struct pages *pages);

/* Physical memory without a place. The largest piece of at most so many pages; its size
 * is written to *span. 0: none. */
uint64_t pages_take_kept(struct pages *pages, size_t most, size_t *span); /* the lock is held */
void pages_keep(struct pages *pages, uint64_t handle, size_t span);       /* the same */
uint64_t pages_take_spare(struct pages *pages, size_t span);              /* the same; 0: none */
void pages_keep_spare(struct pages *pages, uint64_t handle, size_t span); /* the same */
uint64_t pages_create(struct pages *pages, size_t span); /* 0: the driver has none */
/* Releases kept memory worth so many pages, more only if there is nothing smaller; `larger` than so
 * many pages each. Returns how many. */
size_t pages_release(struct pages *pages, size_t want, size_t larger);

/* prefetch.c. A piece of so many pages was made for a block, or was there as a spare one: our own
 * thread is to make the next. 0: none. */
void pages_want_spare(struct pages *pages, size_t span);
void pages_want_no_spare(struct pages *pages); /* memory is being given back */

/* fence.c. Waits until the GPU has finished with all pages that are idle now. False: it cannot be
 * waited for. */
bool pages_settle_now(struct pages *pages);

/* The same without waiting: begins to find out, or finds that what was begun is over. Where no
 * events can tell, it waits if it may, else it finds out nothing. */
void pages_settle_later(struct pages *pages, bool may_wait);

/* The same without waiting for the GPU, though another thread is asking just now. */
void pages_settle_in_turn(struct pages *pages);

/* spill.c. Handles of host memory carry a mark; the real one is what the driver knows. */
bool pages_is_spilled(uint64_t handle);
uint64_t pages_real_handle(uint64_t handle);

/* One more page of host memory; 0: there may be none. */
uint64_t pages_spill(struct pages *pages);

/* Such a page has lost its place (the lock is held); it goes back to the host (it is not). */
void pages_spill_ends(struct pages *pages, uint64_t handle);
void pages_spill_return(struct pages *pages);

/* All that is idle, and that the GPU is known to have finished with, goes back to the host. */
void pages_spill_recede(struct pages *pages);

/* A block comes to these pages: those of them that are idle in host memory lose it where the device
 * has room by now. May wait for the GPU. */
void pages_spill_replace(struct pages *pages, uint64_t address, uint64_t bytes);

uint64_t pages_spilled_ns(const struct pages *pages); /* the lock is held */

/* probe.c: of the device's own memory; of such memory. */
bool pages_trial(unsigned device);
bool pages_trial_of(unsigned device, const CUmemAllocationProp *properties);

CUmemAllocationProp pages_properties(unsigned device);
CUmemAccessDesc pages_access(unsigned device);

#endif
