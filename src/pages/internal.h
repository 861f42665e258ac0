/* internal.h: what engine.c, settle.c and trial.c share. */
#ifndef PAGES_INTERNAL_H
#define PAGES_INTERNAL_H

#include "base/lock.h"
#include "pages/pages.h"
#include "pages/table.h"
#include "real/real.h"

enum { MAX_STREAMS = 64, BATCH = 512 };

/* A stream on which work may use our pages, and the event that tells how far it is. */
struct known_stream {
    uint64_t stream;
    CUevent event;
};

struct pages {
    unsigned device;
    struct lock lock; /* table, kept, streams, figures */
    struct page_table table;
    uint64_t *kept; /* handles without a place */
    size_t kept_count, kept_capacity;
    struct known_stream streams[MAX_STREAMS];
    size_t stream_count;
    bool whole_context;  /* more streams than we can follow, or one that has gone: wait for all */
    size_t handle_count; /* all physical pages, kept or mapped: kept has room for them */
    struct pages_figures figures;

    /* A settling under way. Only pages_give_back looks at these. */
    bool settle_pending;
    size_t settle_streams;
    uint64_t settle_tick;
};

/* settle.c. Waits until the GPU has finished with all pages that are idle now. False: it cannot be
 * waited for. */
bool pages_settle_now(struct pages *pages);

/* The same without waiting: begins to find out, or finds that what was begun is over. For one
 * thread only. */
void pages_settle_later(struct pages *pages);
void pages_know_stream(struct pages *pages, uint64_t stream);

/* trial.c */
bool pages_trial(unsigned device);

CUmemAllocationProp pages_properties(unsigned device);
CUmemAccessDesc pages_access(unsigned device);

#endif
