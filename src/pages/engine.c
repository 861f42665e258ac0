/* engine.c: see pages.h. It must be transactional: a block whose pages cannot all be had leaves
 * everything as it was; and it must never touch a page that is WORKING in another thread. */
#include "pages/internal.h"

#include <sched.h>

static const char *device_name(unsigned device, char *name, size_t size) {
    real_cuDeviceGetName_t get = REAL(cuDeviceGetName);
    return get && get(name, (int)size, (CUdevice)device) == CUDA_SUCCESS ? name : NULL;
}

const char *pages_costs(struct pages *pages) {
    return pages->costs->source;
}

struct pages *pages_open(unsigned device, bool (*capturing)(void), bool frugal) {
    CUcontext context = NULL;
    char name[128];
    if (!pages_trial(device) || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
        return NULL;
    struct pages *pages = memory_map(sizeof *pages);
    if (!pages)
        return NULL;
    pages->device = device;
    pages->context = context;
    pages->capturing = capturing;
    pages->frugal = frugal;
    pages->costs = costs_of(device_name(device, name, sizeof name));
    pages->plan = costs_plan(pages->costs);
    pages->access[pages->access_count++] = pages_access(device);
    return pages;
}

/* A block on its way to its user: the pages it reaches into, and which of them is to be looked at
 * next. */
struct block {
    struct page_segment *segment;
    uint64_t bytes;
    size_t first, next, end;
};

/* Claims the next empty page of the block; waits while one is WORKING elsewhere. NULL: all there.
 */
static struct page *claim(struct pages *pages, struct block *block) {
    struct page *claimed = NULL;
    lock_take(&pages->lock);
    while (block->next < block->end && !claimed) {
        struct page *page = &block->segment->pages[block->next];
        if (page->state == PAGE_WORKING && page->granted) {
            lock_give(&pages->lock);
            sched_yield();
            lock_take(&pages->lock);
            continue;
        }
        if (page->state == PAGE_EMPTY && page->granted) {
            page_table_claim(page);
            claimed = page;
        }
        block->next += claimed == NULL;
    }
    lock_give(&pages->lock);
    return claimed;
}

/* Whether memory has come back, or is on its way, since `then`. */
static bool more_may_come(struct pages *pages, uint64_t then) {
    lock_take(&pages->lock);
    const struct host_memory *host = &pages->host;
    bool moving = pages->moving + pages->opening + host->returning_count + host->leaving > 0;
    bool more = moving || pages->moved != then;
    lock_give(&pages->lock);
    if (moving)
        sched_yield();
    return more;
}

static uint64_t moved(struct pages *pages) {
    lock_take(&pages->lock);
    uint64_t count = pages->moved;
    lock_give(&pages->lock);
    return count;
}

/* What is at hand without waiting: kept memory; idle pages before new ones if that is wanted. */
static uint64_t take_or_create(struct pages *pages, size_t still_missing) {
    uint64_t handle = pages_take_kept(pages);
    if (!handle && pages->frugal) {
        pages_purge_settled(pages, still_missing);
        handle = pages_take_kept(pages);
    }
    return handle ? handle : pages_create(pages);
}

/* Whether another thread's pages have become idle since the GPU was last waited for. */
static bool newly_idle(struct pages *pages) {
    lock_take(&pages->lock);
    const struct page *newest = pages->table.newest;
    bool any = newest && newest->idle_tick > pages->table.settled_tick;
    lock_give(&pages->lock);
    return any;
}

/* 0: really full. Memory that another thread is just unmapping or giving back is waited for; what
 * others leave while the GPU is waited for is looked at a few times more. */
static uint64_t find_memory(struct pages *pages, size_t still_missing) {
    for (int patience = 16;;) {
        uint64_t then = moved(pages);
        uint64_t handle = take_or_create(pages, still_missing);
        if (handle)
            return handle;
        if (!pages_purge_for_block(pages, still_missing) && !more_may_come(pages, then) &&
            !(newly_idle(pages) && patience-- > 0))
            return pages_spill(pages);
    }
}

/* Gives the claimed page memory. False: there is none, and the page is empty again. */
static bool fill(struct pages *pages, struct page *page, const struct block *block) {
    uint64_t handle = find_memory(pages, block->end - block->next);
    bool filled = handle && REAL(cuMemMap)(page_address(page), PAGE_BYTES, 0,
                                           pages_real_handle(handle), 0) == CUDA_SUCCESS;
    lock_take(&pages->lock);
    if (filled) {
        page_table_mapped(&pages->table, page, handle);
        pages->figures.maps++;
    } else {
        page_table_unclaim(&pages->table, page);
        if (handle)
            pages_keep(pages, handle);
    }
    lock_give(&pages->lock);
    if (!filled)
        pages_spill_return(pages);
    return filled;
}

/* Maps what is missing. What was mapped before memory ran out stays, as idle pages: it is the
 * caller who takes the block back. */
static bool map_missing(struct pages *pages, struct block *block) {
    struct page *page;
    bool filled = true;
    while (filled && (page = claim(pages, block)) != NULL)
        filled = fill(pages, page, block);
    return filled &&
           pages_open_to_all(pages, block->segment, block->first, block->end - block->first);
}

static void end_use(struct pages *pages, const struct block *block, bool done, bool pin) {
    lock_take(&pages->lock);
    if (!done)
        page_table_leave(&pages->table, block->segment, block->first, block->end - block->first);
    else if (pin)
        page_table_pin(block->segment, block->first, block->end - block->first);
    if (!done && (block->segment->counted || !block->segment->range))
        pages->figures.refused_bytes += block->bytes;
    lock_give(&pages->lock);
}

bool pages_use(struct pages *pages, uint64_t address, uint64_t bytes, bool pin) {
    struct block block = {.bytes = bytes};
    pages_spill_replace(pages, address, bytes);
    lock_take(&pages->lock);
    block.segment = page_table_find(&pages->table, address);
    if (block.segment) {
        block.next = block.first = page_table_first(block.segment, address);
        block.end = block.first + page_table_span(block.segment, address, bytes);
        page_table_use(&pages->table, block.segment, block.first, block.end - block.first);
    }
    lock_give(&pages->lock);
    if (!block.segment)
        return true;
    bool done = map_missing(pages, &block);
    if (!done || pin)
        end_use(pages, &block, done, pin);
    return done;
}

void pages_leave(struct pages *pages, uint64_t address, uint64_t bytes, bool sure) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    if (segment && !segment->ended)
        page_table_leave(&pages->table, segment, page_table_first(segment, address),
                         page_table_span(segment, address, bytes));
    if (segment && !sure)
        pages->unsure_tick = pages->table.tick;
    lock_give(&pages->lock);
}

bool pages_own(struct pages *pages, uint64_t address) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    bool own = segment && segment->pages[page_table_first(segment, address)].granted;
    lock_give(&pages->lock);
    return own;
}

struct pages_figures pages_figures(struct pages *pages) {
    lock_take(&pages->lock);
    struct pages_figures figures = pages->figures;
    figures.reserved_bytes = pages->table.reserved_pages * PAGE_BYTES;
    figures.mapped_bytes = pages->table.mapped_pages * PAGE_BYTES;
    figures.idle_bytes = pages->table.idle_pages * PAGE_BYTES;
    figures.kept_bytes = pages->kept_count * PAGE_BYTES;
    figures.moving_bytes = pages->moving * PAGE_BYTES;
    figures.physical_bytes = pages->handle_count * PAGE_BYTES;
    figures.spilled_bytes = pages->host.count * PAGE_BYTES;
    figures.may_spill_bytes = pages->host.room * PAGE_BYTES;
    figures.spilled_ns = pages_spilled_ns(pages);
    lock_give(&pages->lock);
    return figures;
}
