/* trace.c: see trace.h. A segment is a row of cells; a run's length stands in its first and in its
 * last cell, so that neighbours are found in constant time. */
#include "trace.h"

#include "rounds.h"

#include <stdbool.h>
#include <stdlib.h>

enum { CELL_BYTES = 1024, LONGEST = 7, CELLS = (int)(TRACE_SEGMENT_BYTES / CELL_BYTES) };

struct cell {
    uint32_t length; /* cells of the run that begins or ends here */
    uint32_t place;  /* of the run in its list; in its first cell */
    bool live;
};

/* First cells of runs in no order, so that one can be drawn at random. */
struct list {
    uint32_t *starts;
    size_t count;
};

struct trace {
    struct cell *cells;
    uint64_t *segments;
    struct list free, live;
    size_t target;
    bool giving_back; /* the next event, once the target is reached */
    bool warm;
    uint64_t random;
};

static uint64_t draw(struct trace *trace, size_t below) {
    trace->random ^= trace->random << 13;
    trace->random ^= trace->random >> 7;
    trace->random ^= trace->random << 17;
    return (trace->random >> 11) % below;
}

static struct list *list_of(struct trace *trace, bool live) {
    return live ? &trace->live : &trace->free;
}

static void put_run(struct trace *trace, uint32_t start, uint32_t length, bool live) {
    struct list *list = list_of(trace, live);
    trace->cells[start] = (struct cell){length, (uint32_t)list->count, live};
    trace->cells[start + length - 1].length = length;
    trace->cells[start + length - 1].live = live;
    list->starts[list->count++] = start;
}

static void drop_run(struct trace *trace, uint32_t start) {
    struct list *list = list_of(trace, trace->cells[start].live);
    uint32_t place = trace->cells[start].place;
    list->starts[place] = list->starts[--list->count];
    trace->cells[list->starts[place]].place = place;
}

static uint64_t address_of(const struct trace *trace, uint32_t start) {
    return trace->segments[start / CELLS] + (uint64_t)(start % CELLS) * CELL_BYTES;
}

static struct block_event hand_out(struct trace *trace) {
    uint32_t start = trace->free.starts[draw(trace, trace->free.count)];
    uint32_t room = trace->cells[start].length;
    uint32_t length = 1 + (uint32_t)draw(trace, LONGEST);
    length = length < room ? length : room;
    drop_run(trace, start);
    put_run(trace, start, length, true);
    if (length < room)
        put_run(trace, start + length, room - length, false);
    return (struct block_event){address_of(trace, start), (int64_t)length * CELL_BYTES};
}

static struct block_event give_back(struct trace *trace) {
    uint32_t start = trace->live.starts[draw(trace, trace->live.count)];
    uint32_t length = trace->cells[start].length;
    struct block_event event = {address_of(trace, start), -(int64_t)length * CELL_BYTES};
    drop_run(trace, start);
    uint32_t next = start + length;
    if (next % CELLS != 0 && !trace->cells[next].live) {
        length += trace->cells[next].length;
        drop_run(trace, next);
    }
    if (start % CELLS != 0 && !trace->cells[start - 1].live) {
        uint32_t before = trace->cells[start - 1].length;
        drop_run(trace, start - before);
        start -= before;
        length += before;
    }
    put_run(trace, start, length, false);
    return event;
}

struct trace *trace_create(size_t live, uint64_t (*new_segment)(size_t bytes)) {
    /* Half as much again as the blocks need on average, so that there are holes of all sizes. */
    size_t segments = live * (LONGEST + 1) / 2 * 3 / 2 / CELLS + 2;
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        give_up("out of memory");
    trace->target = live;
    trace->random = 88172645463325252u;
    trace->segments = calloc(segments, sizeof *trace->segments);
    trace->cells = calloc(segments * CELLS, sizeof *trace->cells);
    trace->free.starts = calloc(segments * CELLS, sizeof *trace->free.starts);
    trace->live.starts = calloc(segments * CELLS, sizeof *trace->live.starts);
    if (!trace->segments || !trace->cells || !trace->free.starts || !trace->live.starts)
        give_up("out of memory");
    for (size_t i = 0; i < segments; i++) {
        trace->segments[i] = new_segment(TRACE_SEGMENT_BYTES);
        put_run(trace, (uint32_t)(i * CELLS), CELLS, false);
    }
    return trace;
}

void trace_destroy(struct trace *trace) {
    free(trace->segments);
    free(trace->cells);
    free(trace->free.starts);
    free(trace->live.starts);
    free(trace);
}

size_t trace_warm_up(const struct trace *trace) {
    return trace->target;
}

size_t trace_live(const struct trace *trace) {
    return trace->live.count;
}

void trace_continue(struct trace *trace, struct block_event *events, size_t count) {
    for (size_t i = 0; i < count; i++) {
        trace->warm |= trace->live.count == trace->target;
        bool back = trace->warm && trace->giving_back;
        trace->giving_back = !back;
        events[i] = back ? give_back(trace) : hand_out(trace);
    }
}
