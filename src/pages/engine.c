/* engine.c: see pages.h. It must be transactional: a block whose pages cannot all be had leaves
 * everything as it was; and it must never touch a page that is WORKING in another thread. */
#include "pages/internal.h"

#include <sched.h>

struct pages *pages_open(unsigned device, bool (*capturing)(void), bool frugal) {
    CUcontext context = NULL;
    if (!pages_trial(device) || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
        return NULL;
    struct pages *pages = memory_map(sizeof *pages);
    if (!pages)
        return NULL;
    pages->device = device;
    pages->context = context;
    pages->capturing = capturing;
    pages->frugal = frugal;
    return pages;
}

/* --- unmapping --- */

/* How many of the pages from i on follow each other without a gap. */
static size_t run_length(struct page *const *list, size_t i, size_t count) {
    size_t n = 1;
    while (i + n < count && list[i + n] == list[i] + n && list[i]->segment == list[i + n]->segment)
        n++;
    return n;
}

/* Pages that are WORKING lose their memory, which is kept. Contiguous ones in one call. A run that
 * the driver refuses to unmap stays mapped. */
static size_t unmap(struct pages *pages, struct page **list, size_t count) {
    size_t done = 0;
    for (size_t i = 0; i < count;) {
        size_t n = run_length(list, i, count);
        bool unmapped = REAL(cuMemUnmap)(page_address(list[i]), n * PAGE_BYTES) == CUDA_SUCCESS;
        lock_take(&pages->lock);
        for (size_t k = i; k < i + n; k++) {
            uint64_t handle = list[k]->handle;
            page_table_emptied(&pages->table, list[k]);
            if (unmapped)
                pages_keep(pages, handle);
            else
                page_table_mapped(&pages->table, list[k], handle);
        }
        pages->figures.unmaps += unmapped ? n : 0;
        pages->moving -= n;
        pages->moved += unmapped ? n : 0;
        lock_give(&pages->lock);
        done += unmapped ? n : 0;
        i += n;
    }
    return done;
}

/* Idle pages that the GPU has finished with become kept memory. */
static size_t purge(struct pages *pages, size_t want) {
    struct page *list[BATCH];
    size_t done = 0;
    while (done < want) {
        lock_take(&pages->lock);
        size_t room = want - done < BATCH ? want - done : BATCH;
        size_t count = page_table_pick(&pages->table, room, list);
        pages->moving += count;
        lock_give(&pages->lock);
        if (!count)
            break;
        done += unmap(pages, list, count);
    }
    return done;
}

/* First what is settled already, then what can be found out without waiting. */
static size_t purge_settled(struct pages *pages, size_t want) {
    size_t done = purge(pages, want);
    if (done < want) {
        pages_settle_later(pages, false);
        done += purge(pages, want - done);
    }
    return done;
}

/* Then what a wait settles. */
static size_t purge_for_block(struct pages *pages, size_t want) {
    size_t done = purge_settled(pages, want);
    if (done < want && pages_settle_now(pages))
        done += purge(pages, want - done);
    return done;
}

/* --- mapping --- */

/* A block on its way to its user: the pages it reaches into, and those among them to which the
 * device must be let in. */
struct block {
    struct page_segment *segment;
    uint64_t bytes;
    size_t next, end;
    size_t closed_first, closed_end; /* empty at the start: closed_first == end */
};

/* Claims the next empty page of the block; waits while one is WORKING elsewhere. NULL: all there.
 */
static struct page *claim(struct pages *pages, struct block *block) {
    struct page *claimed = NULL;
    lock_take(&pages->lock);
    while (block->next < block->end && !claimed) {
        struct page *page = &block->segment->pages[block->next];
        if (page->state == PAGE_WORKING) {
            lock_give(&pages->lock);
            sched_yield();
            lock_take(&pages->lock);
            continue;
        }
        if (page->state == PAGE_EMPTY) {
            page->state = PAGE_WORKING;
            claimed = page;
        } else if (!page->open) {
            block->closed_first =
                block->closed_first < block->next ? block->closed_first : block->next;
            block->closed_end = block->next + 1;
        }
        block->next += claimed == NULL;
    }
    lock_give(&pages->lock);
    return claimed;
}

/* Whether memory has come back, or is on its way, since `then`. */
static bool more_may_come(struct pages *pages, uint64_t then) {
    lock_take(&pages->lock);
    bool moving = pages->moving > 0, more = moving || pages->moved != then;
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
        purge_settled(pages, still_missing);
        handle = pages_take_kept(pages);
    }
    return handle ? handle : pages_create(pages);
}

/* 0: really full. Memory that another thread is just unmapping or giving back is waited for. */
static uint64_t find_memory(struct pages *pages, size_t still_missing) {
    for (;;) {
        uint64_t then = moved(pages);
        uint64_t handle = take_or_create(pages, still_missing);
        if (handle || (!purge_for_block(pages, still_missing) && !more_may_come(pages, then)))
            return handle;
    }
}

/* Gives the claimed page memory. False: there is none, and the page is empty again. */
static bool fill(struct pages *pages, struct page *page, const struct block *block) {
    uint64_t handle = find_memory(pages, block->end - block->next);
    bool filled =
        handle && REAL(cuMemMap)(page_address(page), PAGE_BYTES, 0, handle, 0) == CUDA_SUCCESS;
    lock_take(&pages->lock);
    if (filled) {
        page_table_mapped(&pages->table, page, handle);
        pages->figures.maps++;
    } else {
        page->state = PAGE_EMPTY;
        if (handle)
            pages_keep(pages, handle);
    }
    lock_give(&pages->lock);
    return filled;
}

/* Lets the device in with one call for all pages that are mapped and still closed. */
static bool open_pages(struct pages *pages, const struct block *block) {
    CUmemAccessDesc access = pages_access(pages->device);
    if (block->closed_first >= block->closed_end)
        return true;
    uint64_t address = block->segment->address + block->closed_first * PAGE_BYTES;
    uint64_t bytes = (block->closed_end - block->closed_first) * PAGE_BYTES;
    if (REAL(cuMemSetAccess)(address, bytes, &access, 1) != CUDA_SUCCESS)
        return false;
    lock_take(&pages->lock);
    for (size_t i = block->closed_first; i < block->closed_end; i++)
        block->segment->pages[i].open = true;
    lock_give(&pages->lock);
    return true;
}

/* Maps what is missing. What was mapped before memory ran out stays, as idle pages: it is the
 * caller who takes the block back. */
static bool map_missing(struct pages *pages, struct block *block) {
    struct page *page;
    bool filled = true;
    while (filled && (page = claim(pages, block)) != NULL)
        filled = fill(pages, page, block);
    return filled && open_pages(pages, block);
}

static void end_use(struct pages *pages, const struct block *block, size_t first, bool done,
                    bool pin) {
    lock_take(&pages->lock);
    if (!done)
        page_table_leave(&pages->table, block->segment, first, block->end - first);
    else if (pin)
        page_table_pin(block->segment, first, block->end - first);
    pages->figures.refused_bytes += done ? 0 : block->bytes;
    lock_give(&pages->lock);
}

bool pages_use(struct pages *pages, uint64_t address, uint64_t bytes, bool pin) {
    struct block block = {.bytes = bytes};
    size_t first = 0;
    lock_take(&pages->lock);
    block.segment = page_table_find(&pages->table, address);
    if (block.segment) {
        block.next = first = page_table_first(block.segment, address);
        block.end = first + page_table_span(block.segment, address, bytes);
        block.closed_first = block.end;
        page_table_use(&pages->table, block.segment, first, block.end - first);
    }
    lock_give(&pages->lock);
    if (!block.segment)
        return true;
    bool done = map_missing(pages, &block);
    if (!done || pin)
        end_use(pages, &block, first, done, pin);
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
    bool own = page_table_find(&pages->table, address) != NULL;
    lock_give(&pages->lock);
    return own;
}

/* --- segments --- */

/* What could be had for one more segment: free memory, kept and idle pages. */
static uint64_t available_bytes(struct pages *pages) {
    size_t free_bytes = 0, total_bytes = 0;
    if (REAL(cuMemGetInfo_v2)(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return 0;
    lock_take(&pages->lock);
    uint64_t more = pages->table.idle_pages + pages->kept_count + pages->moving;
    lock_give(&pages->lock);
    return free_bytes + more * PAGE_BYTES;
}

/* The addresses of segments that have ended go back once nothing is mapped there. */
static void sweep(struct pages *pages) {
    for (;;) {
        lock_take(&pages->lock);
        struct page_segment *segment = page_table_ended(&pages->table);
        uint64_t address = segment ? segment->address : 0, bytes = segment ? segment->bytes : 0;
        if (segment)
            page_table_remove(&pages->table, segment);
        lock_give(&pages->lock);
        if (!address)
            return;
        REAL(cuMemAddressFree)(address, bytes);
    }
}

uint64_t pages_segment(struct pages *pages, uint64_t bytes, uint64_t stream) {
    CUdeviceptr address = 0;
    sweep(pages);
    if (available_bytes(pages) < bytes ||
        REAL(cuMemAddressReserve)(&address, bytes, PAGE_BYTES, 0, 0) != CUDA_SUCCESS)
        return 0;
    pages_know_stream(pages, stream);
    lock_take(&pages->lock);
    bool added = page_table_add(&pages->table, address, bytes, stream) != NULL;
    lock_give(&pages->lock);
    if (added)
        return address;
    REAL(cuMemAddressFree)(address, bytes);
    return 0;
}

/* Idle pages of a segment that has ended, which the GPU has finished with. */
static size_t pick_from(struct pages *pages, struct page_segment *segment, struct page **list) {
    size_t count = 0;
    lock_take(&pages->lock);
    for (size_t i = 0; i < segment->page_count && count < BATCH; i++)
        if (page_table_pick_one(&pages->table, &segment->pages[i]))
            list[count++] = &segment->pages[i];
    pages->moving += count;
    lock_give(&pages->lock);
    return count;
}

/* Pages that another thread is unmapping just now, and all of them where the GPU could not be
 * waited for, go later. */
bool pages_end(struct pages *pages, uint64_t address) {
    struct page *list[BATCH];
    size_t count;
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    bool ours = segment && segment->address == address && !segment->ended;
    if (ours)
        page_table_end(&pages->table, segment);
    lock_give(&pages->lock);
    if (!ours)
        return false;
    if (pages_settle_now(pages))
        while ((count = pick_from(pages, segment, list)) > 0 && unmap(pages, list, count) > 0)
            continue;
    lock_take(&pages->lock);
    segment->held = false;
    lock_give(&pages->lock);
    sweep(pages);
    return true;
}

/* --- giving back --- */

static uint64_t give_back(struct pages *pages, uint64_t bytes) {
    size_t want = bytes / PAGE_BYTES;
    lock_take(&pages->lock);
    size_t kept = pages->kept_count;
    lock_give(&pages->lock);
    size_t released = pages_release(pages, min_u64(kept, want));
    while (released < want && purge(pages, min_u64(want - released, BATCH)))
        released += pages_release(pages, min_u64(want - released, BATCH));
    sweep(pages);
    return released * PAGE_BYTES;
}

uint64_t pages_give_back(struct pages *pages, uint64_t bytes) {
    pages_settle_later(pages, true);
    return give_back(pages, bytes);
}

uint64_t pages_give_back_now(struct pages *pages, uint64_t bytes) {
    uint64_t given = give_back(pages, bytes);
    if (given < bytes && pages_settle_now(pages))
        given += give_back(pages, bytes - given);
    return given;
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
    lock_give(&pages->lock);
    return figures;
}
