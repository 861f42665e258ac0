/* trace.h: block events as a caching allocator makes them: blocks are cut off the front of free
 * runs, and merge with their free neighbours when they are given back. Made before the clock runs,
 * so that what is measured is the event and not the allocator. */
#ifndef TRACE_H
#define TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_SEGMENT_BYTES ((size_t)2 << 20)

/* bytes > 0: handed out, < 0: given back. */
struct block_event {
    uint64_t address;
    int64_t bytes;
};

struct trace;

/* Blocks of 1 to 7 KiB, `live` of them at most and nearly always, in segments at the addresses that
 * new_segment returns. At random places; the same each time. Ends the program when memory runs
 * out. */
struct trace *trace_create(size_t live, uint64_t (*new_segment)(size_t bytes));
void trace_destroy(struct trace *trace);

/* How many events bring the heap from empty to `live` blocks. */
size_t trace_warm_up(const struct trace *trace);

/* How many blocks are live after the events made so far. */
size_t trace_live(const struct trace *trace);

/* The next events of the allocator's life: first the warm-up, then a block is given back and
 * another handed out, in turn, at random places. */
void trace_continue(struct trace *trace, struct block_event *events, size_t count);

#endif
