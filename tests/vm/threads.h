/* threads.h: what the tests of the engine on the small driver share: many threads (threads.c), and
 * one alone (alone.c, extents.c, decay.c, sleeps.c). */
#ifndef THREADS_H
#define THREADS_H

#include "fake_driver.h"

enum { SEGMENT_PAGES = 8, LARGE_SEGMENT_PAGES = 160, LARGE_CAPACITY = 510 };

/* The GPU is at work until somebody waits for it. */
enum { ALWAYS = 1000000 };

/* The page behind a block is in use with it, where the segment has one. */
enum { BEHIND = 1 };

struct test {
    atomic_bool stop;
    size_t segment_pages;
    atomic_size_t devices; /* that have been let in */
    struct vm *vm;
};
extern struct test test;

/* The GPU works on a live block. */
void work_on(uint64_t address, size_t count);

/* A range that is attached as a whole, and its end; a segment with one block, and its end. */
uint64_t range_of(size_t npages);
void end_range(uint64_t range, size_t npages);
uint64_t segment_in_use(size_t npages);
void end_used(uint64_t segment, size_t npages);

/* A block comes, is worked on, and goes. */
void use(uint64_t address, size_t npages);

/* Pages: that the driver has given, that are idle in that list, that are cached. */
size_t physical(void);
size_t idle(enum page_idle list);
size_t cached(void);
uint64_t waits(void); /* for the GPU so far */

/* The engine asks again how much there is, as it does when its reading is old. */
void forget_reading(void);

/* extents.c */
void extents_runs(void);
void extents_inner_pages(void);
void extents_survivors(void);
void extents_behind(void);
void extents_largest(void);
void extents_halved(void);
void extents_roomy(void);
void extents_range_again(void);
void extents_replaced(void);
void extents_not_replaced(void);

/* fences.c */
void many_streams(void);
void context_event(void);
void context_refused(void);
void capture_nears(void);

/* sleeps.c */
void sleeps(void);
void sleeps_for_nobody(void);

/* decay.c */
void decay_by_age(void);
void decay_of_returned(void);
void decay_amount(void);
void decay_of_pool(void);
void decay_unfinished(void);
void decay_unmaps_at_rest(void);
void decay_leaving(void);
void decay_batches(void);

/* What one thread does alone, on which device. */
struct alone {
    const char *name;
    void (*run)(void);
    enum { SMALL, LARGE, BOASTING } device; /* BOASTING: it says that it is larger than it is */
    double threshold_percent;
};
const struct alone *alone_find(const char *name); /* NULL: there is none of that name */

#endif
