/* decay.c: idle memory goes back to the driver when it has been idle for long enough. One rule for
 * all of it: extents in PyTorch's cache, extents that PyTorch has given up, and cached handles lie
 * in lists, the longest idle first, and the caller says how old each kind may get. No thread may be
 * held up by it: one that needs a page that is just being unmapped waits for a few others only. */
#include "vm/vm_internal.h"

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
    lock_take(&vm->lock);
    const struct page_table *table = &vm->table;
    uint64_t attached = page_table_idle_since_ns(table, IDLE_ATTACHED);
    uint64_t retained = page_table_idle_since_ns(table, IDLE_RETAINED);
    uint64_t cached = vm_cache_since_ns(vm);
    uint64_t since_ns = min_u64(max_u64(retained, vm->looked_ns), cached);
    if (since_ns != UINT64_MAX)
        since_ns = min_u64(since_ns, vm->moved_ns);
    lock_give(&vm->lock);
    uint64_t due_ns = after(since_ns, limits->retained_ns);
    return limits->attached_bytes ? min_u64(due_ns, after(attached, limits->attached_ns)) : due_ns;
}

/* How many pages are too much. */
struct excess {
    size_t retained, cached;
};

/* The longest idle serves first, so how old it is does not tell whether it is needed: while PyTorch
 * takes as much as it gives up, none gets old, and what was once too much would stay. */
static struct excess excess(struct vm *vm, const struct decay_limits *limits, uint64_t now_ns) {
    struct excess excess = {0};
    lock_take(&vm->lock);
    bool quiet = after(vm->moved_ns, limits->retained_ns) <= now_ns;
    excess.cached =
        vm_cache_pages_since(vm, quiet ? now_ns : minus_u64(now_ns, limits->retained_ns));
    if (quiet || after(vm->looked_ns, limits->retained_ns) <= now_ns) {
        excess.retained = page_table_unneeded(&vm->table);
        vm->looked_ns = now_ns;
    }
    if (quiet)
        excess.retained = SIZE_MAX;
    lock_give(&vm->lock);
    return excess;
}

/* One batch of that list, of what is too old; what loses its place goes to the driver. Returns the
 * pages. */
static size_t decay_batch(struct vm *vm, enum page_idle list, uint64_t since_ns, size_t want,
                          size_t extents) {
    struct victims victims = {.list = list, .want = want, .idle_since_ns = since_ns};
    size_t unmapped = want && vm_may_unmap(vm) ? vm_decommit_batch(vm, &victims, extents) : 0;
    return vm_cache_decay(vm, unmapped);
}

/* Pages that PyTorch has given up go before those in its cache. */
static struct decayed decay(struct vm *vm, const struct decay_limits *limits, uint64_t now_ns) {
    struct excess much = excess(vm, limits, now_ns);
    uint64_t attached_since = minus_u64(now_ns, limits->attached_ns);
    size_t most = limits->attached_bytes / PAGE_BYTES + (limits->attached_bytes % PAGE_BYTES > 0);
    size_t cached = vm_cache_decay(vm, much.cached), retained = 0, attached = 0, batch;
    vm_fence_poll(vm, true);
    struct batches batches = {clock_ns(), FIRST};
    do {
        batch = decay_batch(vm, IDLE_RETAINED, now_ns, minus_u64(much.retained, retained),
                            batches.extents);
        retained += batch;
        if (!batch) {
            batch = decay_batch(vm, IDLE_ATTACHED, attached_since, minus_u64(most, attached),
                                batches.extents);
            attached += batch;
        }
        next_batch(&batches);
    } while (batch);
    vm_sweep(vm);
    return (struct decayed){attached * PAGE_BYTES, (cached + retained) * PAGE_BYTES};
}

struct decayed vm_decay(struct vm *vm, const struct decay_limits *limits, uint64_t now_ns) {
    if (vm_decay_due_ns(vm, limits) > now_ns)
        return (struct decayed){0};
    uint64_t start_ns = clock_ns();
    CUstreamCaptureMode before = capture_mode_relax();
    struct decayed gone = decay(vm, limits, now_ns);
    capture_mode_set(before);
    vm_worked(vm, start_ns);
    return gone;
}
