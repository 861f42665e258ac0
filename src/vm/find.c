/* find.c: physical memory for a block's page: what is cached, what others leave, what the driver
 * has. It must give up only when nothing more is on its way. */
#include "vm/vm_internal.h"

/* Whether memory has come back, or is on its way, since `then`. */
static bool more_may_come(struct vm *vm, uint64_t then) {
    lock_take(&vm->lock);
    const struct host_memory *host = &vm->host;
    bool coming = vm->in_flight + vm->opening + host->returning_count + host->leaving > 0;
    bool more = coming || vm->landed != then;
    unsigned rings = bell_rings(&vm->arrived);
    lock_give(&vm->lock);
    if (coming)
        bell_wait(&vm->arrived, rings);
    return more;
}

static uint64_t landed(struct vm *vm) {
    lock_take(&vm->lock);
    uint64_t count = vm->landed;
    lock_give(&vm->lock);
    return count;
}

static uint64_t take_cached_page(struct vm *vm) {
    size_t npages;
    lock_take(&vm->lock);
    uint64_t handle = vm_cache_take(vm, 1, 1, &npages);
    lock_give(&vm->lock);
    return handle;
}

/* Memory from the driver. What is cached is too large for here, or so small that a block would be
 * in many extents: it goes back first, so that no more is physical than is needed. */
uint64_t vm_take_new(struct vm *vm, size_t npages) {
    vm_cache_trim(vm, npages, 0);
    return vm_handle_create(vm, npages);
}

/* A cached page, or a new one; without waiting for the GPU. */
static uint64_t take_or_create(struct vm *vm) {
    uint64_t handle = take_cached_page(vm);
    if (!handle)
        handle = vm_take_new(vm, 1);
    while (!handle && vm_lacks_memory() && vm_cache_trim(vm, 1, 1))
        handle = vm_handle_create(vm, 1);
    return handle;
}

/* Whether pages have become idle since the GPU was last found to have finished. */
bool vm_newly_idle(struct vm *vm) {
    bool any = false;
    lock_take(&vm->lock);
    for (size_t list = 0; list < IDLE_LISTS; list++)
        for (size_t size = 0; size < EXTENT_SIZES; size++) {
            const struct page *newest = vm->table.idle[list][size].newest;
            any = any || (newest && newest->idle_epoch > vm->table.fenced_epoch);
        }
    lock_give(&vm->lock);
    return any;
}

/* 0: really full. Memory that another thread is just unmapping or giving back is waited for. What
 * others leave while the GPU is waited for is looked at, too, but not for ever: they may take and
 * leave all the time. */
uint64_t vm_find_page(struct vm *vm, size_t missing) {
    for (int patience = 16;;) {
        uint64_t then = landed(vm);
        uint64_t handle = take_or_create(vm);
        if (handle || !vm_lacks_memory())
            return handle;
        if (!vm_decommit_for_block(vm, missing) && !more_may_come(vm, then) &&
            !(vm_newly_idle(vm) && patience-- > 0))
            return vm_spill(vm);
    }
}
