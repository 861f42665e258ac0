/* steps.c: mode flush: the engine without pages. Its pieces are the steps that PyTorch makes, maps
 * and unmaps by itself; they are there from cuMemMap to cuMemUnmap, whatever blocks do. Afterwards
 * each stays where it is for a moment, returned, for PyTorch mostly maps the same addresses next.
 * It must do nothing that PyTorch's own expandable segments do not do; nor ask the GPU: PyTorch
 * has waited for all that used a step before it unmaps it.
 *
 * Each handle that is not mapped is promised a piece of its size, cached or returned, which does
 * not go back to the driver: so a request is refused where the driver refuses PyTorch alone, and
 * not when it is mapped. */
#include "vm/vm_internal.h"

struct vm *vm_open_steps(unsigned device, bool (*capturing)(void),
                         const CUmemAllocationProp *properties) {
    struct vm *vm = vm_new(device, capturing);
    if (!vm)
        return NULL;
    vm->properties = *properties;
    vm->in_steps = true;
    vm->keeps = true;
    vm->table.fenced_epoch = UINT64_MAX;
    return vm;
}

const CUmemAllocationProp *vm_step_properties(const struct vm *vm) {
    return &vm->properties;
}

bool vm_step_fits(uint64_t bytes) {
    return extent_within(bytes / PAGE_BYTES) == bytes / PAGE_BYTES;
}

/* --- handles --- */

static bool promise_spare(struct vm *vm, size_t size) {
    LOCKED(&vm->lock);
    bool spare = vm_spare_steps(vm, size) > 0;
    vm->promised[size] += spare;
    vm->figures.reused += spare;
    vm_changed(vm);
    return spare;
}

/* More is never held than PyTorch had: pieces of another size go back first. */
static bool promise_new(struct vm *vm, size_t npages, size_t size) {
    vm_reclaim(vm, npages * PAGE_BYTES, VM_ASK_NOT);
    uint64_t handle = vm_handle_create(vm, npages);
    if (!handle)
        return false;
    LOCKED(&vm->lock);
    vm_set_clock(vm);
    vm_cache_put(vm, handle, npages);
    vm->promised[size]++;
    return true;
}

CUresult vm_step_promise(struct vm *vm, uint64_t bytes) {
    size_t npages = bytes / PAGE_BYTES, size = extent_size_index(npages);
    if (LIKELY(promise_spare(vm, size)))
        return CUDA_SUCCESS;
    RELAXED_CAPTURES;
    vm_refusal_forget();
    for (;;) {
        uint64_t then = vm_read(vm, &vm->landed);
        if (promise_spare(vm, size) || promise_new(vm, npages, size))
            return CUDA_SUCCESS;
        if (!vm_lacks_memory() || !vm_more_may_come(vm, then))
            return (CUresult)vm_refusal();
    }
}

void vm_step_forgo(struct vm *vm, uint64_t bytes) {
    LOCKED(&vm->lock);
    vm->promised[extent_size_index(bytes / PAGE_BYTES)]--;
}

/* --- mapping --- */

/* Another thread may be about to give pieces back: of those the promised ones arrive here, also
 * between the two looks. */
static uint64_t take_piece(struct vm *vm, size_t npages) {
    size_t had, at_most[EXTENT_SIZES] = {0};
    const struct victims victims = {IDLE_RETURNED, npages, UINT64_MAX, true, at_most};
    at_most[extent_size_index(npages)] = 1;
    for (;;) {
        lock_take(&vm->lock);
        uint64_t then = vm->landed, handle = vm_cache_take(vm, npages, npages, &had);
        lock_give(&vm->lock);
        if (handle || (!vm_decommit_batch(vm, &victims, 1) && !vm_more_may_come(vm, then)))
            return handle ? handle : vm_handle_create(vm, npages);
    }
}

/* Which of them lie in the way: pieces of another size, as where a range had another pool's. None
 * is in use. The lock is held. */
static size_t in_the_way(struct vm *vm, struct page *page, size_t npages, struct page **list) {
    size_t count = 0;
    for (size_t i = 0; i < npages; i++) {
        struct page *lead = page_lead(&page[i]);
        bool taken = page[i].state == PAGE_MAPPED && count < BATCH;
        if (taken && page_table_try_victim(&vm->table, lead))
            list[count++] = lead;
    }
    return count;
}

static bool all_empty(const struct page *page, size_t npages) {
    for (size_t i = 0; i < npages; i++)
        if (page[i].state != PAGE_EMPTY)
            return false;
    return true;
}

/* False: a piece is there. Else the pages are BUSY, and get one. The lock is held, and given for a
 * moment where another thread has a page. */
static bool claim_place(struct vm *vm, struct page *page, size_t npages) {
    struct page *list[BATCH];
    while (!all_empty(page, npages)) {
        if (page->state == PAGE_MAPPED && page->npages == npages)
            return false;
        size_t count = in_the_way(vm, page, npages, list);
        if (!count) {
            bell_await(&vm->arrived, &vm->lock);
            continue;
        }
        lock_give(&vm->lock);
        vm_unmap(vm, list, count);
        lock_take(&vm->lock);
    }
    page_table_claim(page, npages);
    return true;
}

/* From here on the pages are in use, so that no other thread takes them. */
CUresult vm_step_map(struct vm *vm, uint64_t address, uint64_t bytes) {
    size_t npages = bytes / PAGE_BYTES;
    vm_refusal_forget();
    RELAXED_CAPTURES;
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    size_t first = page_table_first(segment, address);
    bool empty = claim_place(vm, &segment->pages[first], npages);
    page_table_mark_live(&vm->table, segment, first, npages);
    lock_give(&vm->lock);
    bool filled =
        !empty || vm_map_claimed(vm, &segment->pages[first], npages, take_piece(vm, npages));
    if (filled)
        vm_step_forgo(vm, bytes);
    else
        vm_detach(vm, address, bytes);
    return filled ? CUDA_SUCCESS : (CUresult)vm_refusal();
}

CUresult vm_step_open(struct vm *vm, uint64_t address, uint64_t bytes) {
    vm_refusal_forget();
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    lock_give(&vm->lock);
    size_t first = page_table_first(segment, address);
    return vm_set_access(vm, segment, first, bytes / PAGE_BYTES) ? CUDA_SUCCESS
                                                                 : (CUresult)vm_refusal();
}

/* --- not kept --- */

bool vm_keeps_steps(struct vm *vm) {
    return vm->keeps;
}

void vm_keep_no_steps(struct vm *vm) {
    vm->keeps = false;
    vm_reclaim(vm, UINT64_MAX, VM_WAIT);
}

uint64_t vm_step_handle(struct vm *vm, uint64_t address) {
    LOCKED(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    return segment ? page_lead(&segment->pages[page_table_first(segment, address)])->handle : 0;
}
