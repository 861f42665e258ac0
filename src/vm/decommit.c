/* decommit.c: idle memory serves a block that lacks some, or goes back to the driver: because it is
 * asked for, because a block was refused, or because it has been idle for long. It lies in lists,
 * the longest idle first. It must wait for another thread only where a block has nothing else left,
 * and hold up nobody who needs a page that is just being unmapped. */
#include "vm/vm_internal.h"

size_t vm_decommit_batch(struct vm *vm, const struct victims *victims, size_t extents) {
    struct page *list[BATCH];
    struct victims chosen = *victims;
    size_t at_most[EXTENT_SIZES];
    bool spares = vm->in_steps && !victims->at_most; /* what is promised to no handle */
    lock_take(&vm->lock);
    for (size_t size = 0; spares && size < EXTENT_SIZES; size++)
        at_most[size] = vm_spare_steps(vm, size);
    if (spares)
        chosen.at_most = at_most;
    size_t count = page_table_victims(&vm->table, &chosen, list, min_u64(extents, BATCH));
    lock_give(&vm->lock);
    return count ? vm_unmap(vm, list, count) : 0;
}

size_t vm_decommit(struct vm *vm, enum page_idle list, size_t want) {
    struct victims victims = {list, want, .idle_since_ns = UINT64_MAX, .newest_first = true};
    size_t done = 0;
    vm_spill_reclaim(vm, UINT64_MAX);
    while (victims.want) {
        size_t unmapped = vm_decommit_batch(vm, &victims, BATCH);
        if (!unmapped)
            break;
        done += unmapped;
        victims.want = want == SIZE_MAX ? want : minus_u64(want, done);
    }
    return done;
}

static size_t decommit_any(struct vm *vm, size_t want) {
    size_t done = vm_decommit(vm, IDLE_RETURNED, want);
    return done + vm_decommit(vm, IDLE_KEPT, minus_u64(want, done));
}

/* Where nothing is idle there is nothing to find out. */
static bool any_idle(struct vm *vm, enum page_idle list) {
    return vm_read(vm, &vm->table.idle_pages[list]) > 0;
}

size_t vm_decommit_fenced(struct vm *vm, enum page_idle list, size_t want) {
    if (!want || !any_idle(vm, list) || !vm_may_unmap(vm))
        return 0;
    size_t done = vm_decommit(vm, list, want);
    if (done < want && any_idle(vm, list)) {
        vm_fence_poll(vm, false);
        done += vm_decommit(vm, list, want - done);
    }
    return done;
}

static size_t decommit_for_block(struct vm *vm, size_t want) {
    size_t done = vm_decommit_fenced(vm, IDLE_RETURNED, want);
    done += vm_decommit_fenced(vm, IDLE_KEPT, minus_u64(want, done));
    bool more = any_idle(vm, IDLE_RETURNED) || any_idle(vm, IDLE_KEPT);
    if (done < want && more && vm_fence_wait(vm))
        done += decommit_any(vm, want - done);
    return done;
}

/* --- giving back --- */

/* now: though unmapping may wait for the GPU. */
static uint64_t reclaim_batches(struct vm *vm, uint64_t bytes, bool now) {
    size_t want = bytes / PAGE_BYTES + (bytes % PAGE_BYTES > 0),
           released = vm_cache_trim(vm, want, 0);
    while (released < want && (now || vm_may_unmap(vm)) &&
           decommit_any(vm, min_u64(want - released, BATCH)))
        released += vm_cache_trim(vm, min_u64(want - released, BATCH), 0);
    vm_sweep(vm);
    return released * PAGE_BYTES;
}

uint64_t vm_reclaim(struct vm *vm, uint64_t bytes, enum vm_ask ask) {
    RELAXED_CAPTURES;
    if (ask == VM_POLL)
        vm_fence_poll(vm, true);
    uint64_t given = reclaim_batches(vm, bytes, ask != VM_POLL);
    if (ask == VM_WAIT && given < bytes && vm_fence_wait(vm))
        given += reclaim_batches(vm, bytes - given, true);
    return given;
}

void vm_reclaim_returned(struct vm *vm) {
    RELAXED_CAPTURES;
    if (any_idle(vm, IDLE_RETURNED))
        vm_fence_wait_briefly(vm);
    vm_decommit(vm, IDLE_RETURNED, SIZE_MAX);
    vm_cache_trim(vm, SIZE_MAX, 0);
    vm_sweep(vm);
}

/* A block is tried as it is, again when all that is idle has gone back, and once more in single
 * pages (map_missing in commit.c). Then it is refused. */
enum { ATTEMPTS = 3 };

/* One refused call is not the end. Mapping takes memory, too: all that is idle goes back. A device
 * that cannot say what it has left is taken at its best. */
bool vm_ask_again(struct vm *vm, unsigned *attempts) {
    if (!vm_lacks_memory() || ++*attempts >= ATTEMPTS)
        return false;
    vm_drop_guards(vm);
    vm_reclaim(vm, UINT64_MAX, VM_WAIT);
    struct room room = vm_room(vm, MEMINFO_ANEW);
    return vm_lacks_memory() &&
           (!room.total_bytes || room.free_bytes >= PAGE_BYTES || vm->host.count < vm->host.room);
}

/* --- memory for a page of a block --- */

bool vm_more_may_come(struct vm *vm, uint64_t then) {
    LOCKED(&vm->lock);
    const struct host_memory *host = &vm->host;
    bool coming = vm_in_flight(vm) + vm->opening + host->returning_count + host->leaving > 0;
    bool more = coming || vm->landed != then;
    if (coming)
        bell_await(&vm->arrived, &vm->lock);
    return more;
}

/* Memory from the driver. What is cached is too large for here, or so small that a block would be
 * in many extents: it goes back first, so that no more is physical than is needed. */
uint64_t vm_take_new(struct vm *vm, size_t npages) {
    vm_cache_trim(vm, npages, 0);
    return vm_handle_create(vm, npages);
}

/* A cached page, or a new one; without waiting for the GPU. */
static uint64_t take_or_create(struct vm *vm) {
    size_t npages;
    lock_take(&vm->lock);
    uint64_t handle = vm_cache_take(vm, 1, 1, &npages);
    lock_give(&vm->lock);
    if (!handle)
        handle = vm_take_new(vm, 1);
    while (!handle && vm_lacks_memory() && vm_cache_trim(vm, 1, 1))
        handle = vm_handle_create(vm, 1);
    return handle;
}

bool vm_newly_idle(struct vm *vm) {
    LOCKED(&vm->lock);
    for (size_t list = 0; list < IDLE_LISTS; list++)
        for (size_t size = 0; size < EXTENT_SIZES; size++) {
            const struct page *newest = vm->table.idle[list][size].newest;
            if (newest && newest->idle_epoch > vm->table.fenced_epoch)
                return true;
        }
    return false;
}

/* 0: really full. Memory that another thread is just unmapping or giving back is waited for. What
 * others leave while the GPU is waited for is looked at, too, but not for ever: they may take and
 * leave all the time. */
uint64_t vm_find_page(struct vm *vm, size_t missing) {
    for (int patience = 16;;) {
        uint64_t then = vm_read(vm, &vm->landed);
        uint64_t handle = take_or_create(vm);
        if (handle || !vm_lacks_memory())
            return handle;
        if (!decommit_for_block(vm, missing) && !vm_more_may_come(vm, then) &&
            !(vm_newly_idle(vm) && patience-- > 0))
            return vm_spill(vm);
    }
}

/* --- what is too old --- */

/* Extents that leave at once: few at first, then as many as the driver is seen to manage within
 * HOLDUP_NS. So long may be held up who needs one of them: eight calls of 26 us each
 * (kvcached's bench_vmm on an A100). */
enum { FIRST = 2 };
#define HOLDUP_NS (200 * MILLISECOND_NS / 1000)

/* One batch after another. */
struct batches {
    uint64_t begun_ns;
    size_t extents;
};

/* The size of the next one follows from how long the latest took. */
static void next_batch(struct batches *batches) {
    uint64_t now = clock_ns(), took_ns = now - batches->begun_ns;
    batches->begun_ns = now;
    if (2 * took_ns <= HOLDUP_NS && 2 * batches->extents <= BATCH)
        batches->extents *= 2;
    else if (took_ns > HOLDUP_NS)
        batches->extents = max_u64(1, batches->extents / 2);
}

static uint64_t after(uint64_t since_ns, uint64_t idle_ns) {
    return since_ns > UINT64_MAX - idle_ns ? UINT64_MAX : since_ns + idle_ns;
}

uint64_t vm_decay_due_ns(struct vm *vm, const struct decay_limits *limits) {
    LOCKED(&vm->lock);
    uint64_t kept_ns = page_table_idle_since_ns(&vm->table, IDLE_KEPT);
    uint64_t returned_ns = page_table_idle_since_ns(&vm->table, IDLE_RETURNED);
    uint64_t due_ns = after(min_u64(returned_ns, vm_cache_since_ns(vm)), limits->returned_ns);
    return limits->kept_bytes ? min_u64(due_ns, after(kept_ns, limits->kept_ns)) : due_ns;
}

/* One batch of that list, of what is too old; what loses its place goes to the driver. Returns the
 * pages. */
static size_t decay_batch(struct vm *vm, enum page_idle list, uint64_t since_ns, size_t want,
                          size_t extents) {
    struct victims victims = {.list = list, .want = want, .idle_since_ns = since_ns};
    size_t unmapped = want && vm_may_unmap(vm) ? vm_decommit_batch(vm, &victims, extents) : 0;
    return vm_cache_decay(vm, unmapped);
}

/* Pages that PyTorch has returned go before those in its cache. */
static struct decayed decay_all(struct vm *vm, const struct decay_limits *limits, uint64_t now_ns) {
    uint64_t kept_since = minus_u64(now_ns, limits->kept_ns);
    uint64_t returned_since = minus_u64(now_ns, limits->returned_ns);
    size_t most = limits->kept_bytes / PAGE_BYTES + (limits->kept_bytes % PAGE_BYTES > 0);
    size_t cached = vm_cache_decay(vm, vm_cache_pages_since(vm, returned_since));
    size_t returned = 0, kept = 0, batch;
    vm_fence_poll(vm, true);
    struct batches batches = {clock_ns(), FIRST};
    do {
        batch = decay_batch(vm, IDLE_RETURNED, returned_since, SIZE_MAX, batches.extents);
        returned += batch;
        if (!batch) {
            batch = decay_batch(vm, IDLE_KEPT, kept_since, minus_u64(most, kept), batches.extents);
            kept += batch;
        }
        next_batch(&batches);
    } while (batch);
    vm_sweep(vm);
    return (struct decayed){kept * PAGE_BYTES, (cached + returned) * PAGE_BYTES};
}

struct decayed vm_decay(struct vm *vm, const struct decay_limits *limits, uint64_t now_ns) {
    if (vm_decay_due_ns(vm, limits) > now_ns)
        return (struct decayed){0};
    RELAXED_CAPTURES;
    return decay_all(vm, limits, now_ns);
}
