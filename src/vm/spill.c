/* spill.c: when the device is really full, up to so much physical memory comes from the host,
 * mapped at the same addresses; the device reaches it over the link. It must be the last resort,
 * and go back first: it is never kept for the next block, and a block that comes back to such pages
 * gets the device's memory if there is any by then. What lives in it stays there until it is freed.
 */
#include "vm/vm_internal.h"

/* Handles of host memory carry this mark in the page table; real ones do not have the bit. */
#define HOST_MARK ((uint64_t)1 << 63)

bool pages_is_spilled(uint64_t handle) {
    return (handle & HOST_MARK) != 0;
}

uint64_t pages_real_handle(uint64_t handle) {
    return handle & ~HOST_MARK;
}

/* --- whether it can be done --- */

/* The node next to the device; 0 where there is but one, or the driver does not know. */
static int node_of(unsigned device) {
    real_cuDeviceGetAttribute_t get = REAL(cuDeviceGetAttribute);
    int node = -1;
    if (!get || get(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, (CUdevice)device) != CUDA_SUCCESS ||
        node < 0)
        return 0;
    return node;
}

static CUmemAllocationProp host_properties(int node) {
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node},
    };
    return properties;
}

bool pages_may_spill(struct pages *pages, uint64_t bytes) {
    size_t room = bytes / PAGE_BYTES;
    pages->host.node = node_of(pages->device);
    CUmemAllocationProp properties = host_properties(pages->host.node);
    if (!room || !pages_trial_of(pages->device, &properties))
        return false;
    pages->host.returning = memory_map(room * sizeof *pages->host.returning);
    pages->host.room = pages->host.returning ? room : 0;
    return pages->host.room > 0;
}

/* --- figures; the lock is held --- */

static void count_more(struct host_memory *host) {
    if (host->count++ == 0)
        host->since_ns = clock_ns();
}

static void count_less(struct host_memory *host, size_t count) {
    host->count -= count;
    if (count && host->count == 0)
        host->spent_ns += clock_ns() - host->since_ns;
}

uint64_t pages_spilled_ns(const struct pages *pages) {
    const struct host_memory *host = &pages->host;
    return host->spent_ns + (host->count ? clock_ns() - host->since_ns : 0);
}

/* --- taking and giving back --- */

uint64_t pages_spill(struct pages *pages) {
    CUmemAllocationProp properties = host_properties(pages->host.node);
    CUmemGenericAllocationHandle handle = 0;
    lock_take(&pages->lock);
    bool room = pages->host.count < pages->host.room;
    if (room)
        count_more(&pages->host);
    pages_changed(pages);
    lock_give(&pages->lock);
    pages_called(pages);
    if (room && REAL(cuMemCreate)(&handle, PAGE_BYTES, &properties, 0) == CUDA_SUCCESS)
        return handle | HOST_MARK;
    lock_take(&pages->lock);
    count_less(&pages->host, room);
    pages_changed(pages);
    lock_give(&pages->lock);
    return 0;
}

void pages_spill_ends(struct pages *pages, uint64_t handle) {
    pages->host.returning[pages->host.returning_count++] = handle;
}

void pages_spill_return(struct pages *pages) {
    for (;;) {
        lock_take(&pages->lock);
        struct host_memory *host = &pages->host;
        uint64_t handle = host->returning_count ? host->returning[--host->returning_count] : 0;
        host->leaving += handle != 0;
        lock_give(&pages->lock);
        if (!handle)
            return;
        REAL(cuMemRelease)(pages_real_handle(handle));
        pages_called(pages);
        lock_take(&pages->lock);
        count_less(host, 1);
        pages_changed(pages);
        host->leaving--;
        pages->moved++;
        lock_give(&pages->lock);
    }
}

/* Idle pages in host memory that the GPU has finished with, and that were idle at that tick. The
 * lock is held. */
static size_t pick(struct pages *pages, uint64_t tick, struct page **list) {
    size_t count = 0;
    uint64_t last = min_u64(tick, pages->table.settled_tick);
    struct page *page = pages->table.oldest[0]; /* host memory comes page by page */
    while (count < BATCH && page && page->idle_tick <= last) {
        struct page *newer = page->newer;
        if (pages_is_spilled(page->handle) && page_table_pick_one(&pages->table, page))
            list[count++] = page;
        page = newer;
    }
    pages_picked(pages, list, count);
    return count;
}

static void recede(struct pages *pages, uint64_t tick) {
    struct page *list[BATCH];
    size_t count = 0;
    do {
        if (!atomic_load_explicit(&pages->host.count, memory_order_relaxed))
            return;
        lock_take(&pages->lock);
        count = pick(pages, tick, list);
        lock_give(&pages->lock);
    } while (count && pages_unmap(pages, list, count) == count);
}

void pages_spill_recede(struct pages *pages) {
    recede(pages, UINT64_MAX);
}

/* Pages that a block is about to use again are spared: only what was idle a tick ago already. */
void pages_spill_tick(struct pages *pages) {
    lock_take(&pages->lock);
    bool spilled = pages->host.count > 0;
    uint64_t then = pages->host.tick;
    pages->host.tick = pages->table.tick;
    lock_give(&pages->lock);
    if (!spilled)
        return;
    pages_settle_later(pages, true);
    recede(pages, then);
}

/* --- a block comes back to pages in host memory --- */

/* Pages of the segment, and how many of them are idle, in host memory or in the device's. */
struct stretch {
    struct page_segment *segment;
    size_t first, count;
    size_t spilled, own;
};

/* The lock is held. */
static struct stretch look_at(struct pages *pages, uint64_t address, uint64_t bytes) {
    struct stretch stretch = {.segment = page_table_find(&pages->table, address)};
    if (!stretch.segment)
        return stretch;
    stretch.first = page_table_first(stretch.segment, address);
    stretch.count = page_table_span(stretch.segment, address, bytes);
    for (size_t i = stretch.first; i < stretch.first + stretch.count; i++) {
        const struct page *page = page_lead(&stretch.segment->pages[i]);
        stretch.spilled += page->idle && pages_is_spilled(page->handle);
        stretch.own += page->idle && !pages_is_spilled(page->handle);
    }
    return stretch;
}

/* Whether the device has memory for them: free, kept, or idle elsewhere. */
static bool device_has_room(struct pages *pages, const struct stretch *stretch) {
    size_t free_bytes = 0, total_bytes = 0, idle = 0;
    if (REAL(cuMemGetInfo_v2)(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return false;
    lock_take(&pages->lock);
    idle = pages->table.idle_pages;
    for (const struct page *page = pages->table.oldest[0]; page; page = page->newer)
        idle -= pages_is_spilled(page->handle);
    size_t room = free_bytes / PAGE_BYTES + pages->kept_count + minus_u64(idle, stretch->own);
    lock_give(&pages->lock);
    return room >= stretch->spilled;
}

void pages_spill_replace(struct pages *pages, uint64_t address, uint64_t bytes) {
    struct page *list[BATCH];
    if (LIKELY(!atomic_load_explicit(&pages->host.count, memory_order_relaxed)))
        return;
    lock_take(&pages->lock);
    struct stretch stretch = look_at(pages, address, bytes);
    lock_give(&pages->lock);
    if (!stretch.spilled || !device_has_room(pages, &stretch) || !pages_settle_now(pages))
        return;
    for (size_t i = stretch.first, count = 1; count > 0;) {
        count = 0;
        lock_take(&pages->lock);
        for (; i < stretch.first + stretch.count && count < BATCH; i++) {
            struct page *page = &stretch.segment->pages[i];
            if (pages_is_spilled(page->handle) && page_table_pick_one(&pages->table, page))
                list[count++] = page;
        }
        pages_picked(pages, list, count);
        lock_give(&pages->lock);
        pages_unmap(pages, list, count);
    }
}
