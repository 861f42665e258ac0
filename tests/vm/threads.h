/* threads.h: what the tests of the engine on the small driver share: many threads (threads.c), and
 * one alone (alone.c). */
#ifndef THREADS_H
#define THREADS_H

#include "fake_driver.h"

enum { SEGMENT_PAGES = 8, LARGE_SEGMENT_PAGES = 160, LARGE_CAPACITY = 800 };

struct test {
    atomic_bool stop;
    atomic_bool prefetching; /* one thread makes spare memory, as vramgc's own does */
    size_t segment_pages;
    atomic_size_t devices; /* that have been let in */
    struct vm *vm;
};
extern struct test test;

/* The GPU works on a live block. */
void work_on(uint64_t address, size_t count);

/* A range that is attached as a whole; a segment with one block, and its end; pages of memory. */
uint64_t range_of(size_t npages);
uint64_t segment_in_use(size_t npages);
void end_used(uint64_t segment, size_t npages);
size_t physical(void);

/* spare.c */
void spare_piece(void);
void no_spare_piece(void);
void short_spare_piece(void);
void late_spare_piece(void);

/* What one thread does alone, on which device. */
struct alone {
    const char *name;
    void (*run)(void);
    enum { SMALL, LARGE, BOASTING } device; /* BOASTING: it says that it is larger than it is */
    double threshold_percent;
};
const struct alone *alone_find(const char *name); /* NULL: there is none of that name */

#endif
