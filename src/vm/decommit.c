/* decommit.c: idle extents lose their place, and what is cached goes back to the driver. It must
 * touch only extents that it has taken from the table, and wait for no other thread. */
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
        done += unmapped ? in_run : 0;
        i += n;
    }
    vm_spill_return(vm);
    return done;
}

void vm_victims_picked(struct vm *vm, struct page *const *list, size_t count) {
    vm->in_flight += pages_in(list, count);
}

size_t vm_decommit_batch(struct vm *vm, const struct victims *victims, size_t extents) {
    struct page *list[BATCH];
    lock_take(&vm->lock);
    size_t count = page_table_victims(&vm->table, victims, list, min_u64(extents, BATCH));
    vm_victims_picked(vm, list, count);
    lock_give(&vm->lock);
    return count ? vm_unmap(vm, list, count) : 0;
}

size_t vm_decommit(struct vm *vm, enum page_idle list, size_t want) {
    struct victims victims = {.list = list, .want = want, .idle_since_ns = UINT64_MAX};
    size_t done = 0;
    vm_spill_reclaim(vm);
    while (victims.want) {
        size_t unmapped = vm_decommit_batch(vm, &victims, BATCH);
        if (!unmapped)
            break;
        done += unmapped;
        victims.want = minus_u64(want, done);
    }
    return done;
}

static size_t decommit_any(struct vm *vm, size_t want) {
    size_t done = vm_decommit(vm, IDLE_RETAINED, want);
    return done + vm_decommit(vm, IDLE_ATTACHED, minus_u64(want, done));
}

/* Where nothing is idle there is nothing to find out. */
static bool any_idle(struct vm *vm, enum page_idle list) {
    lock_take(&vm->lock);
    bool any = vm->table.idle_pages[list] > 0;
    lock_give(&vm->lock);
    return any;
}

size_t vm_decommit_fenced(struct vm *vm, enum page_idle list, size_t want) {
    if (!want || !any_idle(vm, list))
        return 0;
    size_t done = vm_decommit(vm, list, want);
    if (done < want && any_idle(vm, list)) {
        vm_fence_poll(vm, false);
        done += vm_decommit(vm, list, want - done);
    }
    return done;
}

size_t vm_decommit_for_block(struct vm *vm, size_t want) {
    size_t done = vm_decommit_fenced(vm, IDLE_RETAINED, want);
    done += vm_decommit_fenced(vm, IDLE_ATTACHED, minus_u64(want, done));
    bool more = any_idle(vm, IDLE_RETAINED) || any_idle(vm, IDLE_ATTACHED);
    if (done < want && more && vm_fence_wait(vm))
        done += decommit_any(vm, want - done);
    return done;
}

/* --- giving back --- */

static uint64_t reclaim(struct vm *vm, uint64_t bytes) {
    size_t want = bytes / PAGE_BYTES, released = vm_cache_trim(vm, want, 0);
    while (released < want && decommit_any(vm, min_u64(want - released, BATCH)))
        released += vm_cache_trim(vm, min_u64(want - released, BATCH), 0);
    vm_sweep(vm);
    return released * PAGE_BYTES;
}

uint64_t vm_reclaim(struct vm *vm, uint64_t bytes) {
    vm_fence_poll(vm, true);
    return reclaim(vm, bytes);
}

uint64_t vm_reclaim_now(struct vm *vm, uint64_t bytes) {
    uint64_t given = reclaim(vm, bytes);
    if (given < bytes && vm_fence_wait(vm))
        given += reclaim(vm, bytes - given);
    return given;
}
