/* engine.c: see pages.h. It must be transactional: a block whose pages cannot all be had leaves
 * everything as it was; and it must never touch a page that is WORKING in another thread. */
#include "pages/internal.h"

#include <sched.h>
#include <string.h>

struct pages *pages_open(unsigned device) {
    if (!pages_trial(device))
        return NULL;
    struct pages *pages = pages_get(sizeof *pages);
    if (pages)
        pages->device = device;
    return pages;
}

/* --- physical memory without a place --- */

/* Room for all handles there are, so that keeping one never fails. The lock must be held. */
static bool make_room(struct pages *pages) {
    if (pages->handle_count < pages->kept_capacity)
        return true;
    size_t capacity = pages->kept_capacity ? pages->kept_capacity * 2 : 4096;
    uint64_t *larger = pages_get(capacity * sizeof *larger);
    if (!larger)
        return false;
    if (pages->kept_count)
        memcpy(larger, pages->kept, pages->kept_count * sizeof *larger);
    pages_put(pages->kept, pages->kept_capacity * sizeof *larger);
    pages->kept = larger;
    pages->kept_capacity = capacity;
    return true;
}

static uint64_t take_kept(struct pages *pages) {
    lock_take(&pages->lock);
    uint64_t handle = pages->kept_count ? pages->kept[--pages->kept_count] : 0;
    lock_give(&pages->lock);
    return handle;
}

static void keep(struct pages *pages, uint64_t handle) {
    pages->kept[pages->kept_count++] = handle;
}

static uint64_t create(struct pages *pages) {
    CUmemAllocationProp properties = pages_properties(pages->device);
    CUmemGenericAllocationHandle handle = 0;
    lock_take(&pages->lock);
    bool room = make_room(pages);
    pages->handle_count += room;
    lock_give(&pages->lock);
    bool created = room && REAL(cuMemCreate)(&handle, PAGE_BYTES, &properties, 0) == CUDA_SUCCESS;
    lock_take(&pages->lock);
    pages->handle_count -= room && !created;
    pages->figures.creates += created;
    lock_give(&pages->lock);
    return created ? handle : 0;
}

static void release(struct pages *pages, uint64_t handle) {
    REAL(cuMemRelease)(handle);
    lock_take(&pages->lock);
    pages->handle_count--;
    lock_give(&pages->lock);
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
                keep(pages, handle);
            else
                page_table_mapped(&pages->table, list[k], handle);
        }
        pages->figures.unmaps += unmapped ? n : 0;
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
        lock_give(&pages->lock);
        if (!count)
            break;
        done += unmap(pages, list, count);
    }
    return done;
}

/* First what is settled already; then what a wait settles. */
static size_t purge_for_block(struct pages *pages, size_t want, bool may_wait) {
    size_t done = purge(pages, want);
    if (done < want && may_wait && pages_settle_now(pages))
        done += purge(pages, want - done);
    return done;
}

/* --- mapping --- */

/* A block on its way to its user: the pages it reaches into, and those among them to which the
 * device must be let in. */
struct block {
    struct page_segment *segment;
    size_t next, end;
    size_t closed_first, closed_end; /* empty at the start: closed_first == end */
    bool may_wait;
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

static uint64_t find_memory(struct pages *pages, size_t still_missing, bool may_wait) {
    uint64_t handle = take_kept(pages);
    if (!handle)
        handle = create(pages);
    if (!handle && purge_for_block(pages, still_missing, may_wait))
        handle = take_kept(pages);
    return handle;
}

/* Gives the claimed page memory. False: there is none, and the page is empty again. */
static bool fill(struct pages *pages, struct page *page, const struct block *block) {
    uint64_t handle = find_memory(pages, block->end - block->next, block->may_wait);
    bool filled =
        handle && REAL(cuMemMap)(page_address(page), PAGE_BYTES, 0, handle, 0) == CUDA_SUCCESS;
    lock_take(&pages->lock);
    if (filled) {
        page_table_mapped(&pages->table, page, handle);
        pages->figures.maps++;
    } else {
        page->state = PAGE_EMPTY;
        if (handle)
            keep(pages, handle);
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

bool pages_use(struct pages *pages, uint64_t address, uint64_t bytes, bool pin) {
    struct block block = {.may_wait = !pin};
    lock_take(&pages->lock);
    block.segment = page_table_find(&pages->table, address);
    if (block.segment) {
        block.next = page_table_first(block.segment, address);
        size_t count = page_table_span(block.segment, address, bytes);
        block.end = block.closed_first = block.next + count;
        page_table_use(&pages->table, block.segment, block.next, count, pin);
    }
    lock_give(&pages->lock);
    if (!block.segment || map_missing(pages, &block))
        return true;
    pages_leave(pages, address, bytes);
    return false;
}

void pages_leave(struct pages *pages, uint64_t address, uint64_t bytes) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    if (segment)
        page_table_leave(&pages->table, segment, page_table_first(segment, address),
                         page_table_span(segment, address, bytes));
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
    uint64_t more = pages->table.idle_pages + pages->kept_count;
    lock_give(&pages->lock);
    return free_bytes + more * PAGE_BYTES;
}

uint64_t pages_segment(struct pages *pages, uint64_t bytes, uint64_t stream) {
    CUdeviceptr address = 0;
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

/* The pages of a segment that have memory, whatever lives in them: PyTorch frees only whole ones.
 */
static size_t claim_all(struct pages *pages, struct page_segment *segment, size_t *next,
                        struct page **list) {
    size_t count = 0;
    lock_take(&pages->lock);
    for (; *next < segment->page_count && count < BATCH; ++*next) {
        struct page *page = &segment->pages[*next];
        while (page->state == PAGE_WORKING) {
            lock_give(&pages->lock);
            sched_yield();
            lock_take(&pages->lock);
        }
        if (page->state != PAGE_MAPPED)
            continue;
        page_table_use(&pages->table, segment, *next, 1, true); /* out of the list of idle ones */
        page->state = PAGE_WORKING;
        list[count++] = page;
    }
    lock_give(&pages->lock);
    return count;
}

bool pages_end(struct pages *pages, uint64_t address) {
    struct page *list[BATCH];
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    lock_give(&pages->lock);
    if (!segment || segment->address != address)
        return false;
    pages_settle_now(pages);
    size_t next = 0, count;
    while ((count = claim_all(pages, segment, &next, list)) > 0)
        unmap(pages, list, count);
    uint64_t bytes = segment->bytes;
    lock_take(&pages->lock);
    page_table_remove(&pages->table, segment);
    lock_give(&pages->lock);
    REAL(cuMemAddressFree)(address, bytes);
    return true;
}

/* --- giving back --- */

static uint64_t give_back(struct pages *pages, uint64_t bytes) {
    size_t want = bytes / PAGE_BYTES, released = 0;
    uint64_t handle;
    lock_take(&pages->lock);
    size_t kept = pages->kept_count;
    lock_give(&pages->lock);
    if (kept < want)
        purge(pages, want - kept);
    while (released < want && (handle = take_kept(pages)) != 0) {
        release(pages, handle);
        released++;
    }
    return released * PAGE_BYTES;
}

uint64_t pages_give_back(struct pages *pages, uint64_t bytes) {
    pages_settle_later(pages);
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
    lock_give(&pages->lock);
    return figures;
}

void pages_forget(struct pages *pages) {
    lock_force_open(&pages->lock);
}
