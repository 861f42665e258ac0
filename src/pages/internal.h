/* internal.h: what the files of this room share. */
#ifndef PAGES_INTERNAL_H
#define PAGES_INTERNAL_H

#include "base/lock.h"
#include "pages/costs.h"
#include "pages/pages.h"
#include "pages/table.h"
#include "real/real.h"

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

/* What pages_expire remembers. */
struct patience {
    uint64_t moves, moved_ns;        /* maps and unmaps, and when they were last seen to change */
    uint64_t parked_tick, parked_ns; /* the table's clock when it was last looked at */
};

/* The handle of "this thread's own stream" means another stream in every thread. */
#define PER_THREAD_STREAM ((uint64_t)2)

struct pages {
    unsigned device;
    CUcontext context;
    bool (*capturing)(void);
    bool frugal;
    const struct costs *costs;
    struct plan plan;
    struct lock lock; /* what follows, up to the settling */
    struct page_table table;
    uint64_t *kept; /* handles without a place */
    size_t kept_count, kept_capacity;
    size_t handle_count; /* all physical pages, kept or mapped: kept has room for them */
    size_t moving;       /* pages on their way to kept, handles on their way to the driver */
    uint64_t moved;      /* such ways that have come to their end */
    size_t opening;      /* pages that cannot go because a further device is just let in */
    struct known_stream streams[MAX_STREAMS];
    size_t stream_count;  /* places taken so far */
    size_t going;         /* streams that are about to be destroyed: wait for all */
    bool whole_context;   /* more streams than we can follow: wait for all */
    uint64_t unsure_tick; /* pages idle since then may be used by a stream that we do not know */
    struct pages_figures figures;
    struct settling settling;
    struct patience patience;
    CUmemAccessDesc access[MAX_DEVICES]; /* who may access our pages, ourselves first */
    size_t access_count;
    bool letting_in; /* another device, just now */
};

/* unmap.c. Pages that are WORKING lose their memory, which is kept. Contiguous ones in one call. A
 * run that the driver refuses to unmap stays mapped. Returns how many lost theirs. */
size_t pages_unmap(struct pages *pages, struct page **list, size_t count);

/* Up to so many idle pages become kept memory: of those that the GPU is known to have finished
 * with; of those that it can be found out of without waiting; of those that a wait tells of. */
size_t pages_purge(struct pages *pages, size_t want);
size_t pages_purge_settled(struct pages *pages, size_t want);
size_t pages_purge_for_block(struct pages *pages, size_t want);

/* open.c. Lets the devices in to so many pages from the first on, all of which are in use: those
 * that are mapped and not open yet. One call for those that follow each other. */
bool pages_open_to_all(struct pages *pages, struct page_segment *segment, size_t first,
                       size_t count);

/* segment.c. The addresses of segments that have ended go back once nothing is mapped there. */
void pages_sweep(struct pages *pages);

/* Unmaps what the GPU has finished with of segments parked since that tick or before, the oldest
 * first, until at most so many are parked. */
void pages_purge_parked(struct pages *pages, uint64_t tick, size_t allowed);

/* memory.c: physical memory without a place. */
uint64_t pages_take_kept(struct pages *pages);
void pages_keep(struct pages *pages, uint64_t handle); /* the lock is held */
uint64_t pages_create(struct pages *pages);            /* 0: the driver has none */
/* Releases up to so many kept handles. Returns how many. */
size_t pages_release(struct pages *pages, size_t want);

/* settle.c. Waits until the GPU has finished with all pages that are idle now. False: it cannot be
 * waited for. */
bool pages_settle_now(struct pages *pages);

/* The same without waiting: begins to find out, or finds that what was begun is over. Where no
 * events can tell, it waits if it may, else it finds out nothing. */
void pages_settle_later(struct pages *pages, bool may_wait);

/* trial.c */
bool pages_trial(unsigned device);

CUmemAllocationProp pages_properties(unsigned device);
CUmemAccessDesc pages_access(unsigned device);

#endif
