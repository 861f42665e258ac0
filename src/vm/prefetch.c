/* prefetch.c: the next extent of memory, made by our own thread before a block asks for it. To make
 * one lasts some hundred times as long as to map it (costs.def), and while a model loads or a job
 * grows nearly each block wants one. It is of the size that was made last, and used only where
 * another one of that size would be made: so blocks come in the same extents as without. There is
 * at most one of each size, and none where memory is short or given back at once: see may_prefetch
 * in extent_size.c. */
#include "vm/vm_internal.h"

void vm_prefetch_want(struct vm *vm, size_t npages) {
    if (npages && !atomic_exchange(&vm->prefetch_npages, npages))
        atomic_store(&vm->prefetch_untold, true);
}

void vm_prefetch_cancel(struct vm *vm) {
    if (atomic_load_explicit(&vm->prefetch_npages, memory_order_relaxed))
        atomic_store(&vm->prefetch_npages, 0);
}

bool vm_prefetch_wanted(struct vm *vm) {
    return atomic_load_explicit(&vm->prefetch_untold, memory_order_relaxed) &&
           atomic_exchange(&vm->prefetch_untold, false);
}

bool vm_prefetch(struct vm *vm) {
    size_t npages = atomic_exchange(&vm->prefetch_npages, 0);
    lock_take(&vm->lock);
    if (npages && vm->cached[extent_size_index(npages)].prefetched)
        npages = 0;
    vm->prefetching = npages;
    lock_give(&vm->lock);
    if (!npages)
        return false;
    uint64_t handle = vm_handle_create(vm, npages);
    lock_take(&vm->lock);
    vm->prefetching = 0;
    vm->landed++;
    if (handle)
        vm_prefetch_put(vm, handle, npages);
    vm_changed(vm);
    lock_give(&vm->lock);
    return handle;
}
