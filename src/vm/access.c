/* access.c: who may access our pages: the device itself, and others since peer access was enabled. A
 * page must never reach its user before all of them are let in. */
#include "vm/vm_internal.h"

#include <sched.h>

/* Pages that follow each other, and the devices that are let in to them. */
struct run {
    struct page_segment *segment;
    size_t first, count;
    size_t devices;
};

/* The next pages of [*next, end) to which not all devices have been let in, whole pieces of memory
 * only. The lock is held. */
static struct run next_closed(const struct pages *pages, struct page_segment *segment, size_t *next,
                              size_t end) {
    struct run run = {.segment = segment, .devices = pages->access_count};
    while (*next < end) {
        const struct page *page = page_lead(&segment->pages[*next]);
        size_t first = (size_t)(page - segment->pages), behind = first + page_span(page);
        bool closed = page->state == PAGE_MAPPED && page->open_to < run.devices;
        if (!closed && run.count)
            break;
        if (closed && !run.count)
            run.first = first;
        run.count = closed ? behind - run.first : 0;
        *next = behind;
    }
    return run;
}

static bool let_in(struct pages *pages, const struct run *run) {
    pages_called(pages);
    pages_changed(pages);
    return REAL(cuMemSetAccess)(run->segment->address + run->first * PAGE_BYTES,
                                run->count * PAGE_BYTES, pages->access,
                                run->devices) == CUDA_SUCCESS;
}

/* The lock is held. */
static void mark(const struct run *run) {
    for (size_t i = run->first; i < run->first + run->count; i++)
        run->segment->pages[i].open_to = (uint8_t)run->devices;
}

/* The list of devices may grow meanwhile: then those pages are looked at once more. */
bool pages_open_to_all(struct pages *pages, struct page_segment *segment, size_t first,
                       size_t count) {
    bool opened = true;
    for (size_t next = first;;) {
        lock_take(&pages->lock);
        struct run run = next_closed(pages, segment, &next, first + count);
        lock_give(&pages->lock);
        if (!run.count || !opened)
            return opened;
        opened = let_in(pages, &run);
        lock_take(&pages->lock);
        if (opened)
            mark(&run);
        if (opened && run.devices < pages->access_count)
            next = run.first;
        lock_give(&pages->lock);
    }
}

/* --- further devices --- */

/* The next mapped pages from the address on that are closed to somebody; they stay where they are
 * until the flag is taken from them. */
static struct run hold_next(struct pages *pages, uint64_t from) {
    const struct page_table *table = &pages->table;
    struct run run = {0};
    lock_take(&pages->lock);
    for (size_t i = 0; i < table->segment_count && !run.count; i++) {
        struct page_segment *segment = table->segments[i];
        if (segment->address + segment->bytes <= from)
            continue;
        size_t next = from > segment->address ? page_table_first(segment, from) : 0;
        run = next_closed(pages, segment, &next, segment->page_count);
    }
    for (size_t i = run.first; i < run.first + run.count; i++)
        run.segment->pages[i].opening = true;
    pages->opening += run.count;
    lock_give(&pages->lock);
    return run;
}

static void let_go(struct pages *pages, const struct run *run, bool opened) {
    lock_take(&pages->lock);
    for (size_t i = run->first; i < run->first + run->count; i++)
        run->segment->pages[i].opening = false;
    pages->opening -= run->count;
    pages->moved++;
    if (opened)
        mark(run);
    lock_give(&pages->lock);
}

/* One thread at a time. */
static void begin_to_let_in(struct pages *pages) {
    lock_take(&pages->lock);
    while (pages->letting_in) {
        lock_give(&pages->lock);
        sched_yield();
        lock_take(&pages->lock);
    }
    pages->letting_in = true;
    lock_give(&pages->lock);
}

static bool open_mapped(struct pages *pages) {
    bool opened = true;
    for (uint64_t from = 0; opened;) {
        struct run run = hold_next(pages, from);
        if (!run.count)
            break;
        opened = let_in(pages, &run);
        let_go(pages, &run, opened);
        from = run.segment->address + (run.first + run.count) * PAGE_BYTES;
    }
    return opened;
}

bool pages_let_in(struct pages *pages, unsigned device) {
    begin_to_let_in(pages);
    lock_take(&pages->lock);
    bool known = false, room = pages->access_count < MAX_DEVICES;
    for (size_t i = 0; i < pages->access_count; i++)
        known = known || pages->access[i].location.id == (int)device;
    if (!known && room)
        pages->access[pages->access_count++] = pages_access(device);
    lock_give(&pages->lock);
    bool opened = known || (room && open_mapped(pages));
    lock_take(&pages->lock);
    if (room && !opened) /* what has been opened for it may stay so */
        pages->access_count--;
    pages->letting_in = false;
    lock_give(&pages->lock);
    return opened;
}
