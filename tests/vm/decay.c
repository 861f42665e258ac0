/* decay.c: idle memory goes back when it is too old, on the small driver of fake_driver.c. Its
 * clock is that of the page table, which the tests put into the future, where it stands still. */
#include "threads.h"

enum { PAGES = 16 };

static uint64_t start_ns;

/* What becomes idle from now on does so at that time. */
static void clock_stands_at(uint64_t ns) {
    if (!start_ns)
        start_ns = clock_ns() + 3600 * SECOND_NS;
    test.vm->table.now_ns = start_ns + ns;
}

/* Pages of each kind. */
static struct decayed decay_at(const struct decay_limits *limits, uint64_t ns) {
    struct decayed gone = vm_decay(test.vm, limits, start_ns + ns);
    return (struct decayed){gone.kept_bytes / PAGE_BYTES, gone.returned_bytes / PAGE_BYTES};
}

static bool is_due_at(const struct decay_limits *limits, uint64_t ns) {
    return vm_decay_due_ns(test.vm, limits) == start_ns + ns;
}

static void nothing_decays_at(const struct decay_limits *limits, uint64_t ns) {
    struct decayed gone = decay_at(limits, ns);
    MUST(!gone.kept_bytes && !gone.returned_bytes);
}

/* Each kind at its time, and not before: in PyTorch's cache since 0, cached at 20. */
void decay_by_age(void) {
    const struct decay_limits limits = {50, UINT64_MAX, 35};
    uint64_t first = segment_in_use(PAGES), second = segment_in_use(PAGES);
    uint64_t third = segment_in_use(PAGES);
    MUST(vm_decay_due_ns(test.vm, &limits) == UINT64_MAX);
    clock_stands_at(0);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    MUST(is_due_at(&limits, 50));
    clock_stands_at(10);
    end_used(second, PAGES);
    MUST(is_due_at(&limits, 45));
    clock_stands_at(20);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_RETURNED, PAGES) == PAGES);
    MUST(cached() == PAGES && idle(IDLE_KEPT) == PAGES);
    MUST(is_due_at(&limits, 50));
    nothing_decays_at(&limits, 49);
    struct decayed gone = decay_at(&limits, 50);
    MUST(gone.kept_bytes == PAGES && !gone.returned_bytes && cached() == PAGES);
    MUST(is_due_at(&limits, 55));
    nothing_decays_at(&limits, 54);
    gone = decay_at(&limits, 55);
    MUST(gone.returned_bytes == PAGES && physical() == PAGES && waits() == 1);
    clock_stands_at(60);
    end_used(third, PAGES);
    MUST(is_due_at(&limits, 95) && decay_at(&limits, 95).returned_bytes == PAGES);
    MUST(physical() == 0 && vm_decay_due_ns(test.vm, &limits) == UINT64_MAX);
    MUST(vm_unreserve(test.vm, first));
}

/* Of what PyTorch has returned that which is idle for long enough goes, though other such has just
 * become so; what it takes again is the newest, and stays. */
void decay_of_returned(void) {
    enum { NEEDED = 4 };
    const struct decay_limits limits = {0, 0, 35};
    clock_stands_at(0);
    uint64_t first = segment_in_use(PAGES), second = segment_in_use(PAGES);
    end_used(first, PAGES);
    clock_stands_at(10);
    end_used(second, PAGES);
    MUST(is_due_at(&limits, 35) && vm_fence_wait(test.vm));
    for (uint64_t ns = 20; ns <= 40; ns += 5) {
        clock_stands_at(ns);
        end_used(segment_in_use(NEEDED), NEEDED);
        MUST(vm_fence_wait(test.vm));
    }
    MUST(physical() == 2 * PAGES && is_due_at(&limits, 35));
    MUST(decay_at(&limits, 40).returned_bytes == PAGES);
    MUST(is_due_at(&limits, 45));
    MUST(decay_at(&limits, 45).returned_bytes == PAGES - NEEDED);
    MUST(is_due_at(&limits, 75) && decay_at(&limits, 75).returned_bytes == NEEDED);
    MUST(physical() == 0);
}

/* Of what is in PyTorch's cache no more than is asked for, in whole pages, the longest idle first.
 */
void decay_amount(void) {
    uint64_t first = segment_in_use(PAGES), second = segment_in_use(PAGES);
    clock_stands_at(0);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    clock_stands_at(10);
    vm_mark_idle(test.vm, second, PAGES * PAGE_BYTES);
    struct decay_limits limits = {0, 0, 0};
    MUST(vm_decay_due_ns(test.vm, &limits) == UINT64_MAX);
    nothing_decays_at(&limits, 20);
    limits.kept_bytes = 1;
    MUST(is_due_at(&limits, 0) && decay_at(&limits, 20).kept_bytes == 1);
    limits.kept_bytes = (PAGES + 5) * PAGE_BYTES;
    MUST(decay_at(&limits, 20).kept_bytes == PAGES + 5);
    MUST(fake.place[place_of(first)] == RESERVED && idle(IDLE_KEPT) == PAGES - 6);
    MUST(vm_unreserve(test.vm, first) && vm_unreserve(test.vm, second));
}

/* What is idle in a stream-ordered pool is given up when the pool is trimmed. */
void decay_of_pool(void) {
    const struct decay_limits limits = {0, 0, 35};
    CUdeviceptr range;
    fake_reserve(&range, PAGES * PAGE_BYTES, 0, 0, 0);
    MUST(vm_range_add(test.vm, range, PAGES * PAGE_BYTES, false));
    MUST(vm_attach(test.vm, range, PAGES * PAGE_BYTES));
    vm_stream_add(test.vm, 5);
    uint64_t segment = segment_in_use(PAGES);
    clock_stands_at(0);
    use(range, PAGES);
    vm_mark_idle(test.vm, segment, PAGES * PAGE_BYTES);
    MUST(vm_decay_due_ns(test.vm, &limits) == UINT64_MAX);
    clock_stands_at(10);
    vm_trim(test.vm);
    MUST(is_due_at(&limits, 45));
    struct decayed gone = decay_at(&limits, 45);
    MUST(gone.returned_bytes == PAGES && idle(IDLE_KEPT) == PAGES);
    end_range(range, PAGES);
    MUST(vm_unreserve(test.vm, segment));
}

/* What the GPU has not finished with stays, and nobody waits for it. */
void decay_unfinished(void) {
    const struct decay_limits limits = {0, UINT64_MAX, 0};
    uint64_t first = segment_in_use(PAGES), second = segment_in_use(PAGES);
    clock_stands_at(0);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    end_used(second, PAGES);
    fake.answers = ALWAYS;
    nothing_decays_at(&limits, 10);
    MUST(fake.answers > 0 && fake.answers < ALWAYS && physical() == 2 * PAGES);
    fake.answers = 0;
    decay_at(&limits, 10);
    MUST(physical() == 0 && waits() == 0);
    MUST(vm_unreserve(test.vm, first));
}

/* Where unmapping waits for kernels nothing goes beside new work, though the GPU is past all that
 * is idle; where memory is short it goes all the same. */
void decay_unmaps_at_rest(void) {
    const struct decay_limits limits = {0, UINT64_MAX, 0};
    uint64_t first = segment_in_use(PAGES), second = segment_in_use(PAGES);
    clock_stands_at(0);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    end_used(second, PAGES);
    MUST(vm_fence_wait(test.vm) && waits() == 1);
    vm_unmap_at_rest(test.vm);
    fake.answers = ALWAYS;
    nothing_decays_at(&limits, 10);
    MUST(vm_reclaim(test.vm, UINT64_MAX, VM_POLL) == 0 && physical() == 2 * PAGES);
    fake.answers = 0;
    MUST(decay_at(&limits, 10).kept_bytes == PAGES && physical() == 0 && waits() == 1);
    MUST(vm_commit(test.vm, first, PAGES * PAGE_BYTES, false));
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    fake.answers = ALWAYS;
    MUST(vm_reclaim(test.vm, UINT64_MAX, VM_WAIT) == PAGES * PAGE_BYTES);
    MUST(vm_unreserve(test.vm, first));
}

static size_t seen_leaving;

static void sees_it_leave(void) {
    struct vm_figures figures = vm_figures(test.vm);
    MUST(figures.held_idle_bytes == figures.physical_bytes);
    seen_leaving++;
}

/* What is just unmapped or released is idle until the driver has it: or a sum that is taken
 * meanwhile finds memory that nobody has. */
void decay_leaving(void) {
    const struct decay_limits limits = {0, UINT64_MAX, 0};
    uint64_t segment = segment_in_use(PAGES);
    clock_stands_at(0);
    end_used(segment, PAGES);
    fake.meanwhile = sees_it_leave;
    decay_at(&limits, 10);
    MUST(physical() == 0 && seen_leaving >= 2);
    fake.meanwhile = NULL;
}

static size_t most_leaving;

static void counts_leaving(void) {
    most_leaving = max_u64(most_leaving, vm_figures(test.vm).in_flight_bytes / PAGE_BYTES);
}

static size_t most_leaving_of(size_t npages) {
    const struct decay_limits limits = {0, UINT64_MAX, 0};
    uint64_t segment = segment_in_use(npages);
    clock_stands_at(0);
    vm_mark_idle(test.vm, segment, npages * PAGE_BYTES);
    MUST(vm_fence_wait(test.vm));
    most_leaving = 0;
    decay_at(&limits, 10);
    MUST(physical() == 0 && vm_unreserve(test.vm, segment));
    return most_leaving;
}

/* Where the driver is slow, few are on their way at once, for somebody may need one of them; where
 * it is fast, many: on a busy machine it may seem slow for a while. */
void decay_batches(void) {
    enum { MANY = 160, FIRST = 2 };
    fake.meanwhile = counts_leaving;
    fake.slow_us = 1000;
    MUST(most_leaving_of(MANY) <= FIRST);
    fake.slow_us = 0;
    for (int tries = 0; most_leaving_of(MANY) <= FIRST; tries++)
        MUST(tries < 10);
    fake.meanwhile = NULL;
}
