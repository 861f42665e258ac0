/* spill.c: pages of blocks in host memory. It must be the last resort, and go back first: a block
 * that comes back to such pages gets the device's memory if there is any by then. What lives in it
 * stays there until it is freed. */
#include "vm/vm_internal.h"

/* Idle pages in host memory that the GPU has finished with, and that were idle at that epoch; host
 * memory comes page by page. The lock is held. */
static size_t pick(struct vm *vm, uint64_t epoch, struct page **list) {
    size_t count = 0;
    for (size_t idle = 0; idle < IDLE_LISTS; idle++) {
        struct page *page = vm->table.idle[idle][0].oldest, *newer;
        for (; page && count < BATCH && page->idle_epoch <= epoch; page = newer) {
            newer = page->newer;
            if (vm_is_spilled(page->handle) && page_table_try_victim(&vm->table, page))
                list[count++] = page;
        }
    }
    vm_victims_picked(vm, list, count);
    return count;
}

static void recede(struct vm *vm, uint64_t epoch) {
    struct page *list[BATCH];
    size_t count = 0;
    do {
        if (!atomic_load_explicit(&vm->host.count, memory_order_relaxed))
            return;
        lock_take(&vm->lock);
        count = pick(vm, epoch, list);
        lock_give(&vm->lock);
    } while (count && vm_unmap(vm, list, count) == count);
}

void vm_spill_reclaim(struct vm *vm) {
    recede(vm, UINT64_MAX);
}

/* Pages that a block is about to use again are spared: only what was idle an epoch ago already. */
void vm_spill_decay(struct vm *vm) {
    lock_take(&vm->lock);
    bool spilled = vm->host.count > 0;
    uint64_t then = vm->host.epoch;
    vm->host.epoch = vm->table.epoch;
    lock_give(&vm->lock);
    if (!spilled)
        return;
    vm_fence_poll(vm, true);
    recede(vm, then);
}

/* --- a block comes back to pages in host memory --- */

/* Pages of the segment, and how many of them are idle, in host memory or in the device's. */
struct stretch {
    struct page_segment *segment;
    size_t first, count;
    size_t spilled, own;
};

/* The lock is held. */
static struct stretch look_at(struct vm *vm, uint64_t address, uint64_t bytes) {
    struct stretch stretch = {.segment = page_table_lookup(&vm->table, address)};
    if (!stretch.segment)
        return stretch;
    stretch.first = page_table_first(stretch.segment, address);
    stretch.count = page_table_npages(stretch.segment, address, bytes);
    for (size_t i = stretch.first; i < stretch.first + stretch.count; i++) {
        const struct page *page = page_lead(&stretch.segment->pages[i]);
        stretch.spilled += page->idle && vm_is_spilled(page->handle);
        stretch.own += page->idle && !vm_is_spilled(page->handle);
    }
    return stretch;
}

/* Whether the device has memory for them: free, cached, or idle elsewhere. */
static bool device_has_room(struct vm *vm, const struct stretch *stretch) {
    struct room card = vm_room(vm, MEMINFO_KNOWN);
    lock_take(&vm->lock);
    size_t idle = vm_idle_pages(vm);
    for (size_t list = 0; list < IDLE_LISTS; list++)
        for (const struct page *page = vm->table.idle[list][0].oldest; page; page = page->newer)
            idle -= vm_is_spilled(page->handle);
    size_t room =
        card.free_bytes / PAGE_BYTES + vm->cache.cached_pages + minus_u64(idle, stretch->own);
    lock_give(&vm->lock);
    return room >= stretch->spilled;
}

static void replace(struct vm *vm, uint64_t address, uint64_t bytes) {
    struct page *list[BATCH];
    lock_take(&vm->lock);
    struct stretch stretch = look_at(vm, address, bytes);
    lock_give(&vm->lock);
    if (!stretch.spilled || !device_has_room(vm, &stretch) || !vm_fence_wait_briefly(vm))
        return;
    for (size_t i = stretch.first, count = 1; count > 0;) {
        count = 0;
        lock_take(&vm->lock);
        for (; i < stretch.first + stretch.count && count < BATCH; i++) {
            struct page *page = &stretch.segment->pages[i];
            if (vm_is_spilled(page->handle) && page_table_try_victim(&vm->table, page))
                list[count++] = page;
        }
        vm_victims_picked(vm, list, count);
        lock_give(&vm->lock);
        vm_unmap(vm, list, count);
    }
}

void vm_spill_replace(struct vm *vm, uint64_t address, uint64_t bytes) {
    if (LIKELY(!atomic_load_explicit(&vm->host.count, memory_order_relaxed)))
        return;
    CUstreamCaptureMode before = capture_mode_relax();
    replace(vm, address, bytes);
    capture_mode_set(before);
}
