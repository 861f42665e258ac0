/* commit.c: see vm.h. It must be transactional: a block whose pages cannot all be had leaves
 * everything as it was; and it must never touch a page that is BUSY in another thread. */
#include "vm/extent_size.h"

#include <sched.h>

static const char *device_name(unsigned device, char *name, size_t size) {
    real_cuDeviceGetName_t get = REAL(cuDeviceGetName);
    return get && get(name, (int)size, (CUdevice)device) == CUDA_SUCCESS ? name : NULL;
}

const char *vm_costs(struct vm *vm) {
    return vm->costs->source;
}

uint64_t vm_min_idle_ns(struct vm *vm) {
    return vm->plan.retain_ns;
}

struct vm *vm_open(unsigned device, bool (*capturing)(void), double threshold_percent) {
    CUcontext context = NULL;
    char name[128];
    if (!vm_probe(device) || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
        return NULL;
    struct vm *vm = memory_map(sizeof *vm);
    if (!vm)
        return NULL;
    vm->device = device;
    vm->context = context;
    vm->capturing = capturing;
    vm->threshold_percent = threshold_percent;
    vm->lowvram = threshold_percent <= 0;
    vm->costs = costs_of(device_name(device, name, sizeof name));
    vm->plan = costs_plan(vm->costs);
    vm->access[vm->access_count++] = vm_access_desc(device);
    return vm;
}

/* Empty pages that one extent is to back. */
struct extent {
    struct page *page; /* NULL: all there */
    size_t npages;
    uint64_t handle; /* cached memory for it; 0: to be had */
};

static bool is_missing(const struct page *page) {
    return page->state == PAGE_EMPTY && page->attached;
}

/* At the first of some missing pages that follow each other: how many they are. */
static void measure_run(struct block *block) {
    if (block->next < block->run_end)
        return;
    block->run_end = block->next;
    while (block->run_end < block->end && is_missing(&block->segment->pages[block->run_end]))
        block->run_end++;
    block->run = block->run_end - block->next;
}

/* So many pages from block->next on, at most `most`, are empty and lie before `end`. */
static size_t empty_here(const struct block *block, size_t most, size_t end) {
    size_t count = 1;
    while (count < most && block->next + count < end &&
           block->segment->pages[block->next + count].state == PAGE_EMPTY)
        count++;
    return count;
}

/* The largest extent of at most so many pages that is in order for the missing ones. Where extents
 * may lie beyond the block, what lies around is all that the range holds, and a little more at the
 * beginning, as PyTorch itself asks for more than a block needs. */
static size_t in_order(const struct block *block, size_t most) {
    size_t room = empty_here(block, most, block->limits.end), best = 1, around = block->run;
    if (block->limits.end > block->end)
        around = block->limits.cached + block->segment->filled_count;
    for (size_t size = 0; size < EXTENT_SIZES; size++) {
        size_t npages = extent_npages[size], end = block->next + npages;
        size_t part = end > block->end ? block->limits.part_beyond : block->limits.part;
        if (npages <= room && npages * part <= max_u64(block->run, around))
            best = npages;
    }
    return best;
}

/* Of cached memory the largest extent that the block fills, or that is in order; else one is to be
 * made. The lock is held. */
static struct extent choose(struct vm *vm, struct block *block) {
    struct extent extent = {.page = &block->segment->pages[block->next]};
    measure_run(block);
    size_t most = in_order(block, block->limits.cached);
    if (block->limits.whole)
        most = max_u64(most, empty_here(block, LARGEST_EXTENT, block->run_end));
    extent.npages = in_order(block, block->limits.new);
    size_t made = extent.npages;
    extent.handle = vm_cache_take(vm, most, &extent.npages);
    if (!extent.handle) {
        extent.handle = vm_prefetch_take(vm, made);
        block->fresh = made;
    }
    page_table_claim(extent.page, extent.npages);
    return extent;
}

/* Claims the next missing pages of the block; waits while one is BUSY elsewhere. */
static struct extent claim(struct vm *vm, struct block *block) {
    struct extent extent = {0};
    lock_take(&vm->lock);
    while (block->next < block->end && !extent.page) {
        struct page *page = &block->segment->pages[block->next];
        if (page->state == PAGE_BUSY && page->attached) {
            lock_give(&vm->lock);
            sched_yield();
            lock_take(&vm->lock);
            continue;
        }
        if (is_missing(page)) {
            extent = choose(vm, block);
        } else {
            const struct page *lead = page_lead(page);
            block->next = (size_t)(lead - block->segment->pages) + page_npages(lead);
        }
    }
    lock_give(&vm->lock);
    return extent;
}

/* Whether memory has come back, or is on its way, since `then`. */
static bool more_may_come(struct vm *vm, uint64_t then) {
    lock_take(&vm->lock);
    const struct host_memory *host = &vm->host;
    bool in_flight =
        vm->in_flight + vm->opening + vm->prefetching + host->returning_count + host->leaving > 0;
    bool more = in_flight || vm->landed != then;
    lock_give(&vm->lock);
    if (in_flight)
        sched_yield();
    return more;
}

static uint64_t landed(struct vm *vm) {
    lock_take(&vm->lock);
    uint64_t count = vm->landed;
    lock_give(&vm->lock);
    return count;
}

static uint64_t take_one(struct vm *vm) {
    size_t npages;
    lock_take(&vm->lock);
    uint64_t handle = vm_cache_take(vm, 1, &npages);
    handle = handle ? handle : vm_prefetch_take(vm, 1);
    lock_give(&vm->lock);
    return handle;
}

/* What is at hand without waiting: cached memory; an extent that is cached and too large for here
 * goes back to the driver and comes as new, under lowvram all such before any is asked for. */
static uint64_t take_or_create(struct vm *vm, size_t still_missing) {
    uint64_t handle = take_one(vm);
    if (!handle && vm->lowvram)
        vm_cache_trim(vm, still_missing, 1);
    if (!handle)
        handle = vm_handle_create(vm, 1);
    while (!handle && vm_cache_trim(vm, 1, 1))
        handle = vm_handle_create(vm, 1);
    return handle;
}

/* Whether another thread's pages have become idle since the GPU was last waited for. */
static bool newly_idle(struct vm *vm) {
    lock_take(&vm->lock);
    bool any = false;
    for (size_t size = 0; size < EXTENT_SIZES; size++) {
        const struct page *newest = vm->table.newest[size];
        any = any || (newest && newest->idle_epoch > vm->table.fenced_epoch);
    }
    lock_give(&vm->lock);
    return any;
}

/* 0: really full. Memory that another thread is just unmapping or giving back is waited for; what
 * others leave while the GPU is waited for is looked at a few times more. */
static uint64_t find_memory(struct vm *vm, size_t still_missing) {
    for (int tries = 16;;) {
        uint64_t then = landed(vm);
        uint64_t handle = take_or_create(vm, still_missing);
        if (handle)
            return handle;
        if (!vm_decommit_for_block(vm, still_missing) && !more_may_come(vm, then) &&
            !(newly_idle(vm) && tries-- > 0))
            return vm_spill(vm);
    }
}

/* A large extent from the driver; under lowvram what is cached and too large for here goes first.
 */
static uint64_t create_large(struct vm *vm, size_t npages, size_t still_missing) {
    if (vm->lowvram)
        vm_cache_trim(vm, still_missing, npages);
    return vm_handle_create(vm, npages);
}

/* Gives the claimed pages memory. False: there is none, and they are empty again. */
static bool fill(struct vm *vm, struct extent *extent, struct block *block) {
    block->missing =
        max_u64(block->missing, extent->npages); /* some were just going when counted */
    if (!extent->handle)
        extent->handle = extent->npages > 1 ? create_large(vm, extent->npages, block->missing)
                                            : find_memory(vm, block->missing);
    bool filled =
        extent->handle && REAL(cuMemMap)(page_address(extent->page), extent->npages * PAGE_BYTES, 0,
                                         vm_real_handle(extent->handle), 0) == CUDA_SUCCESS;
    vm_called(vm);
    lock_take(&vm->lock);
    if (filled) {
        page_table_mapped(&vm->table, extent->page, extent->handle);
        vm->figures.maps += extent->npages;
        block->missing -= extent->npages;
    } else {
        page_table_unclaim(&vm->table, extent->page);
        if (extent->handle)
            vm_cache_put(vm, extent->handle, extent->npages);
    }
    vm_changed(vm);
    lock_give(&vm->lock);
    if (!filled)
        vm_spill_return(vm);
    return filled;
}

static size_t count_missing(struct vm *vm, const struct block *block) {
    size_t missing = 0;
    lock_take(&vm->lock);
    const struct page *page = block->segment->pages + block->next;
    const struct page *end = block->segment->pages + block->end;
    for (; page < end; page = page_lead(page) + page_npages(page_lead(page)))
        missing += is_missing(page);
    lock_give(&vm->lock);
    return missing;
}

/* Lowvram: idle pages are used before new memory is asked for. The GPU goes on meanwhile, so it is
 * asked again before each extent. */
static bool next_extent(struct vm *vm, struct block *block, struct extent *extent) {
    if (vm->lowvram && block->missing && extent_size_exceeded(vm, block, block->before) &&
        !vm_decommit_fenced(vm, block->missing) && extent_size_exceeded(vm, block, block->limit))
        vm_decommit_for_block(vm, block->missing);
    *extent = claim(vm, block);
    return extent->page != NULL;
}

/* Maps what is missing; where a large extent cannot be had, small ones. What was mapped before
 * memory ran out stays, as idle pages: it is the caller who takes the block back. */
static bool map_missing(struct vm *vm, struct block *block) {
    struct extent extent;
    bool filled = true;
    block->missing = count_missing(vm, block);
    block->limits = extent_size_single(block);
    if (block->missing)
        extent_size_set(vm, block);
    while (filled && next_extent(vm, block, &extent)) {
        filled = fill(vm, &extent, block);
        if (filled || extent.npages == 1)
            continue;
        if (extent.handle)
            block->limits = extent_size_single(block); /* it is there and cannot be mapped */
        else
            extent_size_fall_back(vm, block, extent.npages);
        filled = true;
    }
    if (filled) {
        extent_size_note(vm, block);
        vm_prefetch_want(vm, extent_size_prefetch(block));
    }
    return filled && vm_set_access(vm, block->segment, block->first, block->end - block->first);
}

/* Large extents that are idle and of which the block would use a part only: where memory is short
 * the rest must not lie idle with it. Only the first and the last can be such. The lock is held. */
static size_t victims_partly_used(struct vm *vm, const struct block *block, struct page **list) {
    size_t count = 0;
    const size_t ends[] = {block->first, block->end - 1};
    for (size_t i = 0; (vm->under_pressure || vm->lowvram) && i < ARRAY_LENGTH(ends); i++) {
        struct page *page = page_lead(&block->segment->pages[ends[i]]);
        size_t first = (size_t)(page - block->segment->pages);
        bool partly = first < block->first || first + page_npages(page) > block->end;
        if (partly && page_table_try_victim(&vm->table, page))
            list[count++] = page;
    }
    vm_victims_picked(vm, list, count);
    return count;
}

static void end_use(struct vm *vm, const struct block *block, bool done, bool pin) {
    lock_take(&vm->lock);
    if (!done)
        page_table_mark_idle(&vm->table, block->segment, block->first, block->end - block->first);
    else if (pin)
        page_table_pin(block->segment, block->first, block->end - block->first);
    lock_give(&vm->lock);
}

/* Whether the block lacks nothing: so it is for nearly all. The lock is held. */
static bool is_there(const struct vm *vm, const struct block *block) {
    for (size_t i = block->first; i < block->end; i++) {
        const struct page *page = &block->segment->pages[i];
        if (page->attached && (page->state != PAGE_MAPPED || page->open_to < vm->access_count))
            return false;
    }
    return true;
}

bool vm_commit(struct vm *vm, uint64_t address, uint64_t bytes, bool pin) {
    struct block block = {.pin = pin};
    struct page *partly_used[2];
    size_t count = 0;
    bool there = false;
    vm_spill_replace(vm, address, bytes);
    lock_take(&vm->lock);
    block.segment = page_table_lookup(&vm->table, address);
    if (block.segment) {
        block.next = block.first = page_table_first(block.segment, address);
        block.end = block.first + page_table_npages(block.segment, address, bytes);
        count = victims_partly_used(vm, &block, partly_used);
        page_table_mark_live(&vm->table, block.segment, block.first, block.end - block.first);
        there = !pin && is_there(vm, &block);
    }
    lock_give(&vm->lock);
    if (!block.segment || LIKELY(there))
        return true;
    vm_unmap(vm, partly_used, count);
    bool done = map_missing(vm, &block);
    if (!done || pin)
        end_use(vm, &block, done, pin);
    return done;
}

/* PyTorch has waited for the GPU by then (torch.cuda.graph does), so that most of the time it needs
 * only be asked. */
void vm_capture_prepare(struct vm *vm) {
    vm_fence_poll_in_turn(vm);
    if (newly_idle(vm) && extent_size_is_short(vm))
        vm_fence_wait(vm);
}

void vm_pin_live(struct vm *vm) {
    lock_take(&vm->lock);
    page_table_pin_live(&vm->table);
    lock_give(&vm->lock);
}

void vm_commit_failed(struct vm *vm, uint64_t address, uint64_t bytes) {
    lock_take(&vm->lock);
    const struct page_segment *segment = page_table_lookup(&vm->table, address);
    if (segment && (segment->counted || !segment->range))
        vm->figures.failed_bytes += bytes;
    lock_give(&vm->lock);
}

void vm_mark_idle(struct vm *vm, uint64_t address, uint64_t bytes, bool streams_done) {
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    if (segment && !segment->ended)
        page_table_mark_idle(&vm->table, segment, page_table_first(segment, address),
                             page_table_npages(segment, address, bytes));
    if (segment && !streams_done)
        vm->unsure_epoch = vm->table.epoch;
    lock_give(&vm->lock);
}

bool vm_owns(struct vm *vm, uint64_t address) {
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool own = segment && segment->pages[page_table_first(segment, address)].attached;
    lock_give(&vm->lock);
    return own;
}

uint64_t vm_changes(const struct vm *vm) {
    return atomic_load_explicit(&vm->changes, memory_order_acquire);
}

struct vm_figures vm_figures(struct vm *vm) {
    lock_take(&vm->lock);
    struct vm_figures figures = vm->figures;
    figures.reserved_bytes = vm->table.reserved_pages * PAGE_BYTES;
    figures.mapped_bytes = vm->table.mapped_pages * PAGE_BYTES;
    figures.idle_bytes = vm->table.idle_pages * PAGE_BYTES;
    figures.cached_bytes = vm->cached_count * PAGE_BYTES;
    figures.in_flight_bytes = vm->in_flight * PAGE_BYTES;
    figures.physical_bytes = minus_u64(vm->handle_count, vm->prefetching) * PAGE_BYTES;
    figures.spilled_bytes = vm->host.count * PAGE_BYTES;
    figures.may_spill_bytes = vm->host.room * PAGE_BYTES;
    figures.spilled_ns = vm_spilled_ns(vm);
    figures.calls = atomic_load_explicit(&vm->calls, memory_order_relaxed);
    lock_give(&vm->lock);
    return figures;
}
