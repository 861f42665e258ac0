/* unmap.c: extents that were taken from the table lose their memory, which is cached. It must touch
 * no other extent, and wait for no other thread. */
#include "vm/vm_internal.h"

/* By address: what lies side by side is unmapped by one call. */
static void sort(struct page **list, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct page *page = list[i];
        size_t k = i;
        for (; k > 0 && page_address(list[k - 1]) > page_address(page); k--)
            list[k] = list[k - 1];
        list[k] = page;
    }
}

/* How many of the extents from i on follow each other without a gap. */
static size_t run_length(struct page *const *list, size_t i, size_t count) {
    size_t n = 1;
    while (i + n < count && list[i + n] == list[i + n - 1] + list[i + n - 1]->npages &&
           list[i]->segment == list[i + n]->segment)
        n++;
    return n;
}

static size_t pages_in(struct page *const *list, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += list[i]->npages;
    return sum;
}

/* The lock is held. */
static void conclude(struct vm *vm, struct page **list, size_t count, bool unmapped) {
    for (size_t i = 0; i < count; i++) {
        uint64_t handle = list[i]->handle;
        size_t npages = list[i]->npages;
        vm->in_flight -= npages;
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
    sort(list, count);
    for (size_t i = 0; i < count;) {
        size_t n = run_length(list, i, count), in_run = pages_in(list + i, n);
        bool unmapped =
            REAL(cuMemUnmap)(page_address(list[i]), in_run * PAGE_BYTES) == CUDA_SUCCESS;
        vm_called(vm);
        lock_take(&vm->lock);
        conclude(vm, list + i, n, unmapped);
        vm_changed(vm);
        lock_give(&vm->lock);
        bell_ring(&vm->arrived);
        done += unmapped ? in_run : 0;
        i += n;
    }
    vm_spill_return(vm);
    return done;
}

void vm_victims_picked(struct vm *vm, struct page *const *list, size_t count) {
    vm->in_flight += pages_in(list, count);
}
