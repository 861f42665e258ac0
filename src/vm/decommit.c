/* decommit.c: idle pages lose their memory, and what is cached goes back to the driver. It must
 * touch only pages that it has picked from the table, and wait for no other thread. */
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

size_t vm_decommit(struct vm *vm, size_t want) {
    struct page *list[BATCH];
    size_t done = 0;
    vm_spill_reclaim(vm);
    while (done < want) {
        lock_take(&vm->lock);
        size_t count = page_table_victims(&vm->table, want - done, list, BATCH);
        vm_victims_picked(vm, list, count);
        lock_give(&vm->lock);
        size_t unmapped = count ? vm_unmap(vm, list, count) : 0;
        if (!unmapped)
            break;
        done += unmapped;
    }
    return done;
}

size_t vm_decommit_fenced(struct vm *vm, size_t want) {
    size_t done = vm_decommit(vm, want);
    if (done < want) {
        vm_fence_poll(vm, false);
        done += vm_decommit(vm, want - done);
    }
    return done;
}

/* Where nothing is idle there is nothing to wait for. */
static bool any_idle(struct vm *vm) {
    lock_take(&vm->lock);
    bool any = vm->table.idle_pages > 0;
    lock_give(&vm->lock);
    return any;
}

size_t vm_decommit_for_block(struct vm *vm, size_t want) {
    size_t done = vm_decommit_fenced(vm, want);
    if (done < want && any_idle(vm) && vm_fence_wait(vm))
        done += vm_decommit(vm, want - done);
    return done;
}

/* --- giving back --- */

/* Two looks that far apart, and what was retained or detached at the first has been for long at the
 * second. */
static bool retained_for_long(struct vm *vm, uint64_t now_ns, uint64_t *epoch) {
    struct decay_state *decay = &vm->decay;
    lock_take(&vm->lock);
    bool long_enough = now_ns - decay->retained_ns > vm->plan.retain_ns;
    *epoch = decay->retained_epoch;
    if (long_enough) {
        decay->retained_ns = now_ns;
        decay->retained_epoch = vm->table.epoch;
    }
    bool any = vm->table.idle_pages > 0;
    lock_give(&vm->lock);
    return long_enough && any;
}

/* So many cached pages have not been wanted for too long: as many as there were at least at all
 * times since the last look that counted. */
static size_t cached_too_long(struct vm *vm, uint64_t now_ns) {
    struct decay_state *decay = &vm->decay;
    size_t unwanted = 0;
    lock_take(&vm->lock);
    if (now_ns - decay->cached_ns > vm->plan.cache_ns) {
        unwanted = min_u64(vm->cached_least, vm->cached_count);
        vm->cached_least = vm->cached_count - unwanted;
        decay->cached_ns = now_ns;
    }
    lock_give(&vm->lock);
    return unwanted;
}

/* For so long after the driver last refused memory there are no large extents. */
#define PRESSURE_NS (10 * SECOND_NS)

static void pressure_ends(struct vm *vm, uint64_t now_ns) {
    struct decay_state *decay = &vm->decay;
    lock_take(&vm->lock);
    if (vm->under_pressure && !decay->pressure_ns)
        decay->pressure_ns = now_ns;
    if (vm->under_pressure && now_ns - decay->pressure_ns > PRESSURE_NS) {
        vm->under_pressure = false;
        decay->pressure_ns = 0;
    }
    lock_give(&vm->lock);
}

void vm_trim(struct vm *vm) {
    lock_take(&vm->lock);
    vm->decay.trimmed_epoch = vm->table.epoch;
    lock_give(&vm->lock);
}

/* What was idle when it was to go, and at that epoch, and has been ever since. */
static void decommit_trimmed(struct vm *vm, uint64_t epoch) {
    lock_take(&vm->lock);
    uint64_t since = min_u64(epoch, vm->decay.trimmed_epoch);
    lock_give(&vm->lock);
    while (vm_decommit_decayed(vm, since, SIZE_MAX, BATCH) > 0)
        continue;
}

uint64_t vm_decay(struct vm *vm, uint64_t now_ns) {
    uint64_t epoch;
    pressure_ends(vm, now_ns);
    size_t released = vm_cache_trim(vm, cached_too_long(vm, now_ns), 0);
    if (retained_for_long(vm, now_ns, &epoch)) {
        vm_fence_poll(vm, true);
        vm_decommit_retained(vm, epoch, 0);
        vm_decommit_detached(vm, epoch);
        decommit_trimmed(vm, epoch);
    }
    return released * PAGE_BYTES;
}

static uint64_t give_back(struct vm *vm, uint64_t bytes) {
    size_t want = bytes / PAGE_BYTES;
    lock_take(&vm->lock);
    size_t cached = vm->cached_count;
    lock_give(&vm->lock);
    size_t released = vm_cache_trim(vm, min_u64(cached, want), 0);
    while (released < want && vm_decommit(vm, min_u64(want - released, BATCH)))
        released += vm_cache_trim(vm, min_u64(want - released, BATCH), 0);
    vm_sweep(vm);
    return released * PAGE_BYTES;
}

uint64_t vm_reclaim(struct vm *vm, uint64_t bytes) {
    vm_fence_poll(vm, true);
    return give_back(vm, bytes);
}

uint64_t vm_reclaim_now(struct vm *vm, uint64_t bytes) {
    uint64_t given = give_back(vm, bytes);
    if (given < bytes && vm_fence_wait(vm))
        given += give_back(vm, bytes - given);
    return given;
}
