/* handles.c: physical memory without a place. Extents that lose theirs are cached for the next
 * block, by size, and go back to the driver; when the device is really full, so much comes from the
 * host, which the device reaches over the link. Keeping a handle must never fail, so there is
 * always room for all there are; memory of the host must never be cached. */
#include "vm/vm_internal.h"

/* As many as there are of one page on a device of 256 GiB; they cost memory only where they are
 * used. */
enum { FIRST_CAPACITY = 1 << 17 };

static bool grow_handles(struct handles *handles) {
    if (handles->total < handles->capacity)
        return true;
    size_t capacity = handles->capacity ? handles->capacity * 2 : FIRST_CAPACITY;
    struct cached_handle *larger =
        memory_grow(handles->list, handles->capacity * sizeof *larger, capacity * sizeof *larger);
    if (!larger)
        return false;
    handles->list = larger;
    handles->capacity = capacity;
    return true;
}

bool vm_cache_open(struct vm *vm) {
    bool opened = true;
    for (size_t size = 0; opened && size < EXTENT_SIZES; size++)
        opened = grow_handles(&vm->cache.sizes[size]);
    return opened;
}

/* The one cached last. */
static uint64_t take_handle(struct vm *vm, size_t size) {
    struct handles *handles = &vm->cache.sizes[size];
    vm->cache.cached_pages -= extent_npages(size);
    return handles->list[--handles->count].handle;
}

uint64_t vm_cache_take(struct vm *vm, size_t least, size_t most, size_t *npages) {
    for (size_t size = EXTENT_SIZES; size-- > 0;) {
        if (!vm->cache.sizes[size].count || extent_npages(size) > most ||
            extent_npages(size) < least)
            continue;
        *npages = extent_npages(size);
        return take_handle(vm, size);
    }
    return 0;
}

void vm_cache_put(struct vm *vm, uint64_t handle, size_t npages) {
    struct handles *handles = &vm->cache.sizes[extent_size_index(npages)];
    if (vm_is_spilled(handle)) {
        vm->host.returning[vm->host.returning_count++] = handle;
        return;
    }
    handles->list[handles->count++] = (struct cached_handle){handle, vm->table.now_ns};
    vm->cache.cached_pages += npages;
}

uint64_t vm_cache_since_ns(const struct vm *vm) {
    uint64_t since_ns = UINT64_MAX;
    for (size_t size = 0; size < EXTENT_SIZES; size++)
        if (vm->cache.sizes[size].count)
            since_ns = min_u64(since_ns, vm->cache.sizes[size].list[0].since_ns);
    return since_ns;
}

size_t vm_cache_pages_since(struct vm *vm, uint64_t since_ns) {
    size_t pages = 0;
    LOCKED(&vm->lock);
    for (size_t size = 0; size < EXTENT_SIZES; size++) {
        const struct handles *handles = &vm->cache.sizes[size];
        size_t count = 0;
        while (count < handles->count && handles->list[count].since_ns <= since_ns)
            count++;
        pages += count * extent_npages(size);
    }
    return pages;
}

uint64_t vm_handle_create(struct vm *vm, size_t npages) {
    CUmemGenericAllocationHandle handle = 0;
    struct handles *handles = &vm->cache.sizes[extent_size_index(npages)];
    lock_take(&vm->lock);
    bool room = grow_handles(handles);
    handles->total += room;
    vm->cache.physical_pages += room ? npages : 0;
    generation_begin(&vm->cache.moves);
    lock_give(&vm->lock);
    bool created =
        room && vm_granted(gate_create(&handle, npages * PAGE_BYTES, &vm->properties, 0));
    LOCKED(&vm->lock);
    handles->total -= room && !created;
    vm->cache.physical_pages -= room && !created ? npages : 0;
    generation_end(&vm->cache.moves);
    vm_called(vm);
    return created ? handle : 0;
}

/* --- going back to the driver --- */

/* The size of which one is released: the largest that is not more than what is wanted, else the
 * smallest there is. */
static size_t to_release(const struct vm *vm, size_t want, size_t larger) {
    size_t best = EXTENT_SIZES;
    for (size_t size = EXTENT_SIZES; size-- > 0;) {
        if (!vm->cache.sizes[size].count || !vm_spare_steps(vm, size) ||
            extent_npages(size) <= larger)
            continue;
        best = size;
        if (extent_npages(size) <= want)
            break;
    }
    return best;
}

/* Until the driver has it back it is neither cached nor free: others know that it is on its way. */
static size_t release_handle(struct vm *vm, size_t want, size_t larger) {
    lock_take(&vm->lock);
    size_t size = to_release(vm, want, larger);
    size_t npages = size < EXTENT_SIZES ? extent_npages(size) : 0;
    uint64_t handle = npages ? take_handle(vm, size) : 0;
    vm->releasing += npages;
    if (npages)
        generation_begin(&vm->cache.moves);
    lock_give(&vm->lock);
    if (!npages)
        return 0;
    bool released = REAL(cuMemRelease)(handle) == CUDA_SUCCESS;
    lock_take(&vm->lock);
    vm->releasing -= npages;
    generation_end(&vm->cache.moves);
    if (released) {
        vm->cache.sizes[size].total--;
        vm->cache.physical_pages -= npages;
        vm->landed++;
    } else {
        vm_cache_put(vm, handle, npages);
    }
    vm_called(vm);
    lock_give(&vm->lock);
    bell_ring(&vm->arrived);
    return released ? npages : 0;
}

size_t vm_cache_trim(struct vm *vm, size_t want, size_t larger) {
    size_t released = 0, npages = 1;
    while (released < want && npages) {
        npages = release_handle(vm, want - released, larger);
        released += npages;
    }
    return released;
}

size_t vm_cache_decay(struct vm *vm, size_t want) {
    size_t released = 0, npages = 1;
    while (released < want && npages && !atomic_load(&vm->cache.readers)) {
        npages = release_handle(vm, want - released, 0);
        released += npages;
    }
    return released;
}

/* --- extents get a place --- */

bool vm_map_claimed(struct vm *vm, struct page *page, size_t npages, uint64_t handle) {
    bool mapped = handle && vm_granted(REAL(cuMemMap)(page_address(page), npages * PAGE_BYTES, 0,
                                                      vm_real_handle(handle), 0));
    lock_take(&vm->lock);
    if (mapped) {
        page_table_mapped(&vm->table, page, handle);
        vm->figures.maps += npages;
    } else {
        page_table_unclaim(&vm->table, page);
        if (handle)
            vm_cache_put(vm, handle, npages);
    }
    vm_called(vm);
    lock_give(&vm->lock);
    bell_ring(&vm->arrived);
    return mapped;
}

/* --- extents lose their place --- */

/* By address: what lies side by side is unmapped by one call. */
static void sort_by_address(struct page **list, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct page *page = list[i];
        size_t k = i;
        for (; k > 0 && page_address(list[k - 1]) > page_address(page); k--)
            list[k] = list[k - 1];
        list[k] = page;
    }
}

/* How many of the extents follow each other without a gap, and their pages. */
static size_t run_length(struct page *const *list, size_t count, size_t *npages) {
    size_t n = 1;
    *npages = list[0]->npages;
    while (n < count && list[n] == list[0] + *npages && list[n]->segment == list[0]->segment)
        *npages += list[n++]->npages;
    return n;
}

/* The lock is held. */
static void conclude_unmap(struct vm *vm, struct page **list, size_t count, bool unmapped) {
    for (size_t i = 0; i < count; i++) {
        uint64_t handle = list[i]->handle;
        size_t npages = list[i]->npages;
        vm->table.in_flight_pages -= npages;
        if (!unmapped) {
            page_table_put_back(&vm->table, list[i]);
            continue;
        }
        page_table_unmapped(&vm->table, list[i]);
        vm_cache_put(vm, handle, npages);
        vm->figures.unmaps += npages;
        vm->landed++;
    }
}

size_t vm_unmap(struct vm *vm, struct page **list, size_t count) {
    size_t done = 0;
    sort_by_address(list, count);
    for (size_t i = 0; i < count;) {
        size_t in_run, n = run_length(list + i, count - i, &in_run);
        bool unmapped =
            REAL(cuMemUnmap)(page_address(list[i]), in_run * PAGE_BYTES) == CUDA_SUCCESS;
        lock_take(&vm->lock);
        conclude_unmap(vm, list + i, n, unmapped);
        vm_called(vm);
        lock_give(&vm->lock);
        bell_ring(&vm->arrived);
        done += unmapped ? in_run : 0;
        i += n;
    }
    vm_spill_return(vm);
    return done;
}

/* --- memory of the host --- */

/* The node next to the device; 0 where there is but one, or the driver does not know. */
static int node_of(unsigned device) {
    real_cuDeviceGetAttribute_t get = REAL(cuDeviceGetAttribute);
    int node = -1;
    if (!get || get(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, (CUdevice)device) != CUDA_SUCCESS ||
        node < 0)
        return 0;
    return node;
}

bool vm_enable_spill(struct vm *vm, uint64_t bytes) {
    size_t room = bytes / PAGE_BYTES;
    vm->host.properties = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node_of(vm->device)},
    };
    if (!room || !vm_probe(vm->device, &vm->host.properties))
        return false;
    vm->host.returning = memory_map(room * sizeof *vm->host.returning);
    vm->host.room = vm->host.returning ? room : 0;
    return vm->host.room > 0;
}

/* The lock is held. */
static void count_less(struct host_memory *host, size_t count) {
    host->count -= count;
    if (count && host->count == 0)
        host->spent_ns += clock_ns() - host->since_ns;
}

uint64_t vm_spill(struct vm *vm) {
    CUmemGenericAllocationHandle handle = 0;
    lock_take(&vm->lock);
    bool room = vm->host.count < vm->host.room;
    if (room && vm->host.count++ == 0)
        vm->host.since_ns = clock_ns();
    vm_called(vm);
    lock_give(&vm->lock);
    /* Of any error of the host's the device's refusal is told. */
    if (room && REAL(cuMemCreate)(&handle, PAGE_BYTES, &vm->host.properties, 0) == CUDA_SUCCESS)
        return handle | HOST_MARK;
    LOCKED(&vm->lock);
    count_less(&vm->host, room);
    vm_changed(vm);
    return 0;
}

void vm_spill_return(struct vm *vm) {
    for (;;) {
        lock_take(&vm->lock);
        struct host_memory *host = &vm->host;
        uint64_t handle = host->returning_count ? host->returning[--host->returning_count] : 0;
        host->leaving += handle != 0;
        lock_give(&vm->lock);
        if (!handle)
            return;
        vm_release(vm_real_handle(handle)); /* what is refused twice is waited for by nobody */
        lock_take(&vm->lock);
        count_less(host, 1);
        vm_called(vm);
        host->leaving--;
        vm->landed++;
        lock_give(&vm->lock);
        bell_ring(&vm->arrived);
    }
}

/* --- pages of blocks in host memory: the last resort, and the first to go back. A block that comes
 * back to such pages gets the device's memory if there is any by then; what lives in it stays. ---
 */

/* Idle pages in host memory that the GPU has finished with, and that were idle at that epoch; host
 * memory comes page by page. */
static size_t pick(struct vm *vm, uint64_t epoch, struct page **list) {
    size_t count = 0;
    LOCKED(&vm->lock);
    for (size_t idle = 0; idle < IDLE_LISTS; idle++) {
        struct page *page = vm->table.idle[idle][0].oldest, *newer;
        for (; page && count < BATCH && page->idle_epoch <= epoch; page = newer) {
            newer = page->newer;
            if (vm_is_spilled(page->handle) && page_table_try_victim(&vm->table, page))
                list[count++] = page;
        }
    }
    return count;
}

void vm_spill_reclaim(struct vm *vm, uint64_t epoch) {
    struct page *list[BATCH];
    size_t count = 0;
    do {
        if (!atomic_load_explicit(&vm->host.count, memory_order_relaxed))
            return;
        count = pick(vm, epoch, list);
    } while (count && vm_unmap(vm, list, count) == count);
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
    vm_spill_reclaim(vm, then);
}

/* Pages of the segment, and how many of them are idle, in host memory or in the device's. */
struct stretch {
    struct page_segment *segment;
    size_t first, count;
    size_t spilled, own;
};

static struct stretch stretch_at(struct vm *vm, uint64_t address, uint64_t bytes) {
    LOCKED(&vm->lock);
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

/* The device has memory for them: free, cached, or idle elsewhere. */
static bool device_has_room(struct vm *vm, const struct stretch *stretch) {
    struct room card = vm_room(vm, MEMINFO_KNOWN);
    LOCKED(&vm->lock);
    size_t idle = vm_idle_pages(vm);
    for (size_t list = 0; list < IDLE_LISTS; list++)
        for (const struct page *page = vm->table.idle[list][0].oldest; page; page = page->newer)
            idle -= vm_is_spilled(page->handle);
    size_t room =
        card.free_bytes / PAGE_BYTES + vm->cache.cached_pages + minus_u64(idle, stretch->own);
    return room >= stretch->spilled;
}

static void replace_spilled(struct vm *vm, uint64_t address, uint64_t bytes) {
    struct page *list[BATCH];
    struct stretch stretch = stretch_at(vm, address, bytes);
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
        lock_give(&vm->lock);
        vm_unmap(vm, list, count);
    }
}

void vm_spill_replace(struct vm *vm, uint64_t address, uint64_t bytes) {
    if (LIKELY(!atomic_load_explicit(&vm->host.count, memory_order_relaxed)))
        return;
    RELAXED_CAPTURES;
    replace_spilled(vm, address, bytes);
}
