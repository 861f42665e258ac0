/* costs.h: what follows from what the driver's calls cost on a card: how much physical memory is
 * cached for the next block, and for how long. Pure. */
#ifndef VM_COSTS_H
#define VM_COSTS_H

#include <stddef.h>
#include <stdint.h>

/* One row of costs.def; nanoseconds, 0: not measured. */
struct costs {
    const char *card, *source;
    uint64_t create, create_mib, map, map_mib, access, access_mib, unmap, unmap_mib;
    uint64_t release, release_mib, access_each, unmap_each;
    uint64_t alloc, free, event_record, event_query, info;
};

struct plan {
    uint64_t cache_ns; /* memory without a place is cached until nobody has wanted it for so long */
    size_t largest_extent; /* 2 MiB pages in the largest extent of memory that is worth it */
    uint64_t retain_ns;    /* an ended segment keeps its pages for so long at least */
};

/* The row for a device of that name, which may be NULL. */
const struct costs *costs_of(const char *name);

/* A program that takes memory whenever it has just gone must not lose more than one part in 200 of
 * its time by that (the library's bound without pressure is 0.5 %): 128 MiB go so seldom that
 * getting them again costs no more. Between 0.1 s, the step of our own looks, and 5 s, after which
 * memory is missed elsewhere. Above the threshold it goes sooner (govern/decay.h). */
struct plan costs_plan(const struct costs *costs);

#endif
