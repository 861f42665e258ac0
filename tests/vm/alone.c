/* alone.c: what the page engine does for one thread on the small driver of fake_driver.c, call by
 * call. */
#include "threads.h"

#include <string.h>

/* --- segments that end and come back --- */

static void end_all(const uint64_t *segments, size_t count) {
    for (size_t i = 0; i < count; i++)
        MUST(vm_unreserve(test.vm, segments[i]) && !vm_unreserve(test.vm, segments[i]));
}

static void use_all(uint64_t *segments, size_t count, size_t npages) {
    for (size_t i = 0; i < count; i++) {
        MUST((segments[i] = vm_reserve(test.vm, npages * PAGE_BYTES, 3 + i % 3)) != 0);
        MUST(vm_commit(test.vm, segments[i], npages * PAGE_BYTES, false));
        work_on(segments[i], npages);
        vm_mark_idle(test.vm, segments[i], npages * PAGE_BYTES, true);
    }
}

/* A program that empties PyTorch's cache all the time reaches the driver once. What nobody wants
 * goes in the end; more than so many are never retained. */
static void storm(void) {
    enum { OFTEN = 300, MANY = 600, MOST_PARKED = 512, SOME = 20, PAGES = 3 };
    uint64_t segments[MANY];
    fake.capacity = MANY + 2;
    use_all(segments, SOME, PAGES);
    unsigned calls = atomic_load(&fake.calls);
    for (size_t i = 0; i < OFTEN; i++) {
        end_all(segments, SOME);
        MUST(vm_figures(test.vm).reserved_bytes == 0);
        use_all(segments, SOME, PAGES);
        MUST(vm_figures(test.vm).reserved_bytes == SOME * PAGES * PAGE_BYTES);
    }
    MUST(atomic_load(&fake.calls) == calls);
    MUST(vm_figures(test.vm).revived == OFTEN * SOME);
    end_all(segments, SOME);
    vm_decay(test.vm, 10 * SECOND_NS);
    MUST(vm_figures(test.vm).idle_bytes == SOME * PAGES * PAGE_BYTES);
    vm_decay(test.vm, 20 * SECOND_NS);
    MUST(vm_figures(test.vm).mapped_bytes == 0 && fake.pages_out > 0);
    vm_decay(test.vm, 30 * SECOND_NS); /* from here on it is known how much is cached */
    MUST(fake.pages_out > 0);
    vm_decay(test.vm, 40 * SECOND_NS);
    MUST(fake.pages_out == 0);
    use_all(segments, MANY, 1);
    end_all(segments, MANY);
    MUST(vm_figures(test.vm).mapped_bytes == MOST_PARKED * PAGE_BYTES);
    vm_decay(test.vm, 50 * SECOND_NS);
    MUST(vm_figures(test.vm).cached_bytes == (MANY - MOST_PARKED) * PAGE_BYTES);
    use_all(segments, SOME, PAGES);
    end_all(segments, SOME);
    vm_decay(test.vm, 60 * SECOND_NS); /* what was wanted meanwhile stays */
    MUST(fake.pages_out == MOST_PARKED + SOME * PAGES);
    for (uint64_t second = 70; second < 110; second += 10)
        vm_decay(test.vm, second * SECOND_NS);
    MUST(fake.pages_out == 0);
}

/* --- addresses that are attached, detached and attached again --- */

static void grant_and_use(uint64_t range, size_t first, size_t count) {
    uint64_t address = range + first * PAGE_BYTES, bytes = count * PAGE_BYTES;
    MUST(vm_attach(test.vm, address, bytes) && vm_commit(test.vm, address, bytes, false));
    work_on(address, count);
    vm_mark_idle(test.vm, address, bytes, true);
}

/* A program that empties the cache of its expandable segments all the time reaches the driver once;
 * extents of memory lie across what is attached at a time, and ahead of it. What nobody is attached
 * again goes in the end, what has been attached again stays. */
static void detached(void) {
    enum { PAGES = 128, PART = 10, OFTEN = 300 };
    CUdeviceptr range;
    fake_reserve(&range, PAGES * PAGE_BYTES, 0, 0, 0);
    MUST(vm_range_add(test.vm, range, PAGES * PAGE_BYTES, true));
    for (size_t first = 0; first + PART <= PAGES; first += PART)
        grant_and_use(range, first, PART);
    MUST(fake.large > 0 && vm_figures(test.vm).calls < PAGES);
    unsigned calls = atomic_load(&fake.calls);
    for (size_t i = 0; i < OFTEN; i++) {
        uint64_t part = range + i % (PAGES / PART) * PART * PAGE_BYTES;
        MUST(vm_detach(test.vm, part, PART * PAGE_BYTES) && !vm_owns(test.vm, part));
        MUST(vm_figures(test.vm).reserved_bytes == (PAGES / PART - 1) * PART * PAGE_BYTES);
        grant_and_use(range, i % (PAGES / PART) * PART, PART);
    }
    MUST(atomic_load(&fake.calls) == calls);
    for (size_t first = PART; first + PART <= PAGES; first += PART)
        MUST(vm_detach(test.vm, range + first * PAGE_BYTES, PART * PAGE_BYTES));
    uint64_t mapped = vm_figures(test.vm).mapped_bytes;
    MUST(mapped >= (PAGES / PART) * PART * PAGE_BYTES && vm_figures(test.vm).idle_bytes == mapped);
    vm_decay(test.vm, 10 * SECOND_NS);
    MUST(vm_figures(test.vm).mapped_bytes == mapped);
    vm_decay(test.vm, 20 * SECOND_NS);
    mapped = vm_figures(test.vm).mapped_bytes;
    MUST(mapped >= PART * PAGE_BYTES && mapped <= (PART + LARGEST_EXTENT) * PAGE_BYTES);
    MUST(vm_commit(test.vm, range, PAGE_BYTES, false)); /* two blocks in one extent */
    MUST(vm_commit(test.vm, range + PAGE_BYTES, PAGE_BYTES, false));
    vm_mark_idle(test.vm, range + PAGE_BYTES, PAGE_BYTES, true);
    MUST(vm_fence_wait(test.vm));
    vm_decommit(test.vm, PAGES);
    MUST(fake.place[place_of(range)] >= FIRST_HANDLE);
    vm_mark_idle(test.vm, range, PAGE_BYTES, true);
    MUST(vm_detach(test.vm, range, PART * PAGE_BYTES));
    MUST(vm_range_end(test.vm, range) && fake.place[place_of(range)] != 0);
    vm_fence_wait(test.vm);
    vm_decommit(test.vm, PAGES);
    vm_sweep(test.vm);
    MUST(fake.place[place_of(range)] == 0);
}

/* --- large extents of memory --- */

uint64_t range_of(size_t npages) {
    CUdeviceptr range;
    fake_reserve(&range, npages * PAGE_BYTES, 0, 0, 0);
    MUST(vm_range_add(test.vm, range, npages * PAGE_BYTES, true));
    MUST(vm_attach(test.vm, range, npages * PAGE_BYTES));
    return range;
}

/* A small block that comes to lie where a larger one was holds no more than its own pages: the
 * others can go. */
static void use_large_then_small(uint64_t address) {
    enum { PAGES = 27 };
    MUST(address && vm_commit(test.vm, address, PAGES * PAGE_BYTES, false));
    work_on(address, PAGES);
    vm_mark_idle(test.vm, address, PAGES * PAGE_BYTES, true);
    MUST(vm_commit(test.vm, address, PAGE_BYTES, false));
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, 2 * PAGES) >= PAGES - 1);
    MUST(vm_figures(test.vm).mapped_bytes == PAGE_BYTES && fake.large == 0);
    vm_mark_idle(test.vm, address, PAGE_BYTES, true);
}

/* So it is in segments, in which larger blocks get large extents. */
static void small_in_large(void) {
    enum { MANY = 160 };
    uint64_t segment = vm_reserve(test.vm, MANY * PAGE_BYTES, 5);
    use_large_then_small(segment);
    MUST(vm_unreserve(test.vm, segment));
    vm_reclaim_now(test.vm, UINT64_MAX);
    use_all(&segment, 1, MANY);
    MUST(fake.large > 0 && vm_unreserve(test.vm, segment));
}

/* A block that misses 160 pages costs ten extents and one call that opens them all, and one call
 * unmaps them. Where memory is short, a small block does not hold a large extent for it. */
static void extents(void) {
    enum { PAGES = 160, SPAN = 16, PIECES = PAGES / SPAN, OPEN = 1, UNMAP = 1, STALE_MS = 2 };
    uint64_t segment = vm_reserve(test.vm, PAGES * PAGE_BYTES, 5), bytes = PAGES * PAGE_BYTES;
    unsigned calls = atomic_load(&fake.calls), infos = atomic_load(&fake.infos);
    uint64_t begun_ns = clock_ns();
    MUST(segment && vm_commit(test.vm, segment, bytes, false));
    MUST(atomic_load(&fake.calls) == calls + 2 * PIECES + OPEN);
    uint64_t took_ns = clock_ns() - begun_ns;
    MUST(atomic_load(&fake.infos) - infos <= 1 + took_ns / (STALE_MS * MILLISECOND_NS));
    work_on(segment, PAGES);
    vm_mark_idle(test.vm, segment, bytes, true);
    MUST(vm_fence_wait(test.vm));
    calls = atomic_load(&fake.calls);
    MUST(vm_commit(test.vm, segment + 40 * PAGE_BYTES, PAGE_BYTES, false)); /* as it lies */
    MUST(atomic_load(&fake.calls) == calls);
    vm_mark_idle(test.vm, segment + 40 * PAGE_BYTES, PAGE_BYTES, true);
    MUST(vm_fence_wait(test.vm));
    test.vm->under_pressure = true;
    MUST(vm_commit(test.vm, segment + 40 * PAGE_BYTES, PAGE_BYTES, false));
    MUST(vm_figures(test.vm).mapped_bytes == (PAGES - SPAN + 1) * PAGE_BYTES);
    MUST(vm_figures(test.vm).idle_bytes == (PAGES - SPAN) * PAGE_BYTES);
    vm_mark_idle(test.vm, segment + 40 * PAGE_BYTES, PAGE_BYTES, true);
    MUST(vm_unreserve(test.vm, segment));
    calls = atomic_load(&fake.calls);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, PAGES) == PAGES - SPAN + 1);
    MUST(atomic_load(&fake.calls) == calls + 3 * UNMAP); /* there is a hole on each side */
}

uint64_t segment_in_use(size_t npages) {
    uint64_t segment = vm_reserve(test.vm, npages * PAGE_BYTES, 5);
    MUST(segment && vm_commit(test.vm, segment, npages * PAGE_BYTES, false));
    return segment;
}

void end_used(uint64_t segment, size_t npages) {
    vm_mark_idle(test.vm, segment, npages * PAGE_BYTES, true);
    MUST(vm_unreserve(test.vm, segment));
}

size_t physical(void) {
    return vm_figures(test.vm).physical_bytes / PAGE_BYTES;
}

/* Lowvram: a block gets what another one has left, whatever the sizes of the extents; the GPU is
 * asked about it again and again, and waited for before more is had than was needed ever. A little
 * block need not wait for a 64th of that. */
static void frugal_high(void) {
    enum { PAGES = 160, SPAN = 16, LITTLE = 5, ALWAYS = 1000000 };
    uint64_t first = segment_in_use(PAGES);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES, true);
    fake.answers = ALWAYS;
    uint64_t second = segment_in_use(PAGES);
    MUST(physical() == PAGES && vm_figures(test.vm).waits == 1);
    MUST(vm_commit(test.vm, first, PAGES * PAGE_BYTES, false)); /* so much is needed now */
    MUST(physical() == 2 * PAGES && vm_figures(test.vm).waits == 1);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES, true);
    vm_reclaim_now(test.vm, UINT64_MAX);
    MUST(physical() == PAGES);
    vm_mark_idle(test.vm, second, PAGES * PAGE_BYTES, true);
    fake.answers = 6; /* it has finished before the block is there */
    unsigned waits = (unsigned)vm_figures(test.vm).waits;
    MUST(vm_commit(test.vm, first, PAGES * PAGE_BYTES, false));
    MUST(fake.answers == 0 && physical() < PAGES + 6 * SPAN);
    MUST(vm_figures(test.vm).waits == waits);
    MUST(vm_unreserve(test.vm, second));
    vm_reclaim_now(test.vm, UINT64_MAX);
    second = segment_in_use(PAGES);
    MUST(physical() == 2 * PAGES);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES, true);
    fake.answers = ALWAYS;
    waits = (unsigned)vm_figures(test.vm).waits;
    uint64_t little = segment_in_use(LITTLE);
    MUST(physical() == 2 * PAGES + LITTLE && vm_figures(test.vm).waits == waits);
    uint64_t more = segment_in_use(LITTLE);
    MUST(physical() <= 2 * PAGES + LITTLE && vm_figures(test.vm).waits == waits + 1);
    end_used(second, PAGES);
    end_used(little, LITTLE);
    end_used(more, LITTLE);
    MUST(vm_unreserve(test.vm, first));
}

/* It is not waited for as long as less is held than is needed now; and what is given back because
 * its extents are too large makes room for those that are not: nothing more is unmapped for them.
 */
static void frugal_few_waits(void) {
    enum { PAGES = 160, SPAN = 16, LITTLE = 20 };
    uint64_t first = segment_in_use(PAGES), little = segment_in_use(LITTLE);
    vm_mark_idle(test.vm, little, LITTLE * PAGE_BYTES, true);
    fake.answers = 6;
    uint64_t second = segment_in_use(PAGES);
    MUST(fake.answers == 0 && physical() == 2 * PAGES && vm_figures(test.vm).waits == 0);
    vm_mark_idle(test.vm, second, PAGES * PAGE_BYTES, true);
    vm_reclaim_now(test.vm, UINT64_MAX);
    MUST(vm_commit(test.vm, second, PAGES * PAGE_BYTES, false));
    vm_mark_idle(test.vm, second, PAGES * PAGE_BYTES, true);
    MUST(vm_fence_wait(test.vm));
    MUST(vm_commit(test.vm, little, LITTLE * PAGE_BYTES, false)); /* in extents of one page */
    MUST(physical() == 2 * PAGES - 2 * SPAN + LITTLE);
    MUST(vm_figures(test.vm).idle_bytes == (PAGES - 2 * SPAN) * PAGE_BYTES);
    end_used(first, PAGES);
    end_used(little, LITTLE);
    MUST(vm_unreserve(test.vm, second));
}

/* Where no large extent is to be had a block comes in single pages, and not one of them is above
 * what was needed ever: the GPU is waited for. */
static void frugal_refused(void) {
    enum { PAGES = 160, FEWER = 100, REST = PAGES - FEWER, ALWAYS = 1000000 };
    end_used(segment_in_use(PAGES), PAGES);
    vm_reclaim_now(test.vm, UINT64_MAX);
    uint64_t first = segment_in_use(FEWER);
    vm_mark_idle(test.vm, first, FEWER * PAGE_BYTES, true);
    fake.answers = ALWAYS;
    fake.no_large = true;
    uint64_t waits = vm_figures(test.vm).waits;
    uint64_t second = segment_in_use(REST + 1);
    MUST(physical() <= PAGES);
    MUST(vm_figures(test.vm).waits == waits + 1);
    MUST(vm_unreserve(test.vm, first));
    end_used(second, REST + 1);
}

/* How many extents it takes to use a block that lacks all its pages. */
static unsigned pieces_for(uint64_t address, size_t npages) {
    enum { OPEN = 1 };
    usleep(5000); /* what is free is not asked all the time: now it is */
    unsigned calls = atomic_load(&fake.calls);
    MUST(vm_commit(test.vm, address, npages * PAGE_BYTES, false));
    unsigned extents = (atomic_load(&fake.calls) - calls - OPEN) / 2; /* each is made and mapped */
    work_on(address, npages);
    vm_mark_idle(test.vm, address, npages * PAGE_BYTES, true);
    MUST(vm_fence_wait(test.vm));
    return extents;
}

/* In an expandable segment extents are larger on a device that hardly anybody uses, then the more
 * it holds, while much of the device is left, for a large block, and much larger for a huge one.
 * Where none can be made any more, what others have left comes as it is. */
static void growing_range(void) {
    enum { UNUSED = 40, FIRST = 80, SECOND = 120, BOTH = FIRST + SECOND, EARLY = 32 };
    enum { LARGE_BLOCK = 80, HUGE_BLOCK = 320, TWO = LARGE_BLOCK + HUGE_BLOCK };
    enum { ALL = BOTH + EARLY + TWO, FEW = 8, ALWAYS = 1000000 };
    uint64_t range = range_of(ALL), other = range_of(ALL);
    vm_stream_add(test.vm, 5);
    MUST(pieces_for(other, UNUSED) == UNUSED / 4);
    vm_reclaim_now(test.vm, UINT64_MAX);
    MUST(pieces_for(range, FIRST) == FIRST / 2);
    MUST(pieces_for(range + FIRST * PAGE_BYTES, SECOND) < SECOND / 3); /* nearly all of 4 pages */
    uint64_t next = range + BOTH * PAGE_BYTES;
    MUST(pieces_for(next, EARLY) < EARLY / 3); /* of 4 pages */
    next += EARLY * PAGE_BYTES;
    MUST(pieces_for(next, LARGE_BLOCK) < LARGE_BLOCK / 6); /* of 8 pages */
    next += LARGE_BLOCK * PAGE_BYTES;
    MUST(pieces_for(next, HUGE_BLOCK) < HUGE_BLOCK / 20); /* of 32 pages */
    fake.capacity = ALL;
    fake.answers = ALWAYS;
    MUST(vm_commit(test.vm, range, ALL * PAGE_BYTES, false));
    work_on(range, ALL);
    vm_mark_idle(test.vm, range, ALL * PAGE_BYTES, true);
    usleep(5000); /* it is seen that nothing is free any more */
    struct vm_figures before = vm_figures(test.vm);
    MUST(vm_commit(test.vm, other, (ALL - FEW) * PAGE_BYTES, false));
    MUST(vm_figures(test.vm).creates <= before.creates + FEW);
    vm_mark_idle(test.vm, other, (ALL - FEW) * PAGE_BYTES, true);
    MUST(vm_detach(test.vm, range, ALL * PAGE_BYTES));
    MUST(vm_detach(test.vm, other, ALL * PAGE_BYTES));
    MUST(vm_range_end(test.vm, range) && vm_range_end(test.vm, other));
}

/* In an expandable segment extents are smaller again once little of the device is left. */
static void last_pieces(void) {
    enum { MOST = 560, BLOCK = 64, LARGER = 16, SMALLER = 8, ALL = MOST + 4 * BLOCK };
    uint64_t range = range_of(ALL), next = range + (MOST + BLOCK) * PAGE_BYTES;
    vm_stream_add(test.vm, 5);
    fake.boast = 16;
    pieces_for(range, MOST);
    MUST(pieces_for(next, BLOCK) == BLOCK / LARGER);
    MUST(pieces_for(next + BLOCK * PAGE_BYTES, BLOCK) == BLOCK / SMALLER);
    fake.boast = 1;
    MUST(vm_detach(test.vm, range, ALL * PAGE_BYTES) && vm_range_end(test.vm, range));
}

/* Where the driver, which here says that it has twice as much as is true, refuses an extent the
 * next is half as large. */
static void halved(void) {
    enum { IDLE = 100, LEFT = 150, BLOCK = 240, ALWAYS = 1000000 };
    enum { LARGE_PIECES = 9 + 1 + 1 }; /* of 16 pages, of 4, after one of 8 was refused, of 2 */
    uint64_t idle = range_of(IDLE), range = range_of(BLOCK);
    vm_stream_add(test.vm, 5);
    pieces_for(idle, IDLE);
    fake.capacity = fake.pages_out + LEFT;
    fake.pages_elsewhere = LARGE_CAPACITY - fake.capacity;
    fake.boast = 2;
    fake.answers = ALWAYS;
    usleep(5000); /* what is free is not asked all the time */
    unsigned large = fake.large;
    MUST(vm_commit(test.vm, range, BLOCK * PAGE_BYTES, false));
    MUST(fake.large == large + LARGE_PIECES);
    fake.boast = 1;
    work_on(range, BLOCK);
    vm_mark_idle(test.vm, range, BLOCK * PAGE_BYTES, true);
    MUST(vm_detach(test.vm, range, BLOCK * PAGE_BYTES));
    MUST(vm_detach(test.vm, idle, IDLE * PAGE_BYTES));
    MUST(vm_range_end(test.vm, range) && vm_range_end(test.vm, idle));
}

/* In a range a block is in as few extents as can be, and a smaller one that comes to lie there
 * holds none of them. Where memory is short all are single pages. */
static void frugal_whole(void) {
    enum { PAGES = 100, LAST = 4, LITTLE = 20, FEW = LARGE_CAPACITY / 16 };
    uint64_t range = range_of(PAGES);
    uint64_t last = range + (PAGES - 1) * PAGE_BYTES;
    MUST(pieces_for(range, PAGES) == 3 && !vm_prefetch_wanted(test.vm)); /* of 64, 32 and LAST */
    MUST(vm_commit(test.vm, last, PAGE_BYTES, false));
    MUST(vm_figures(test.vm).mapped_bytes == (PAGES - LAST + 1) * PAGE_BYTES);
    vm_mark_idle(test.vm, last, PAGE_BYTES, true);
    vm_reclaim_now(test.vm, UINT64_MAX);
    MUST(physical() == 0);
    fake.capacity = FEW;
    fake.pages_elsewhere = LARGE_CAPACITY - FEW;
    MUST(pieces_for(range, LITTLE) == LITTLE);
    MUST(vm_detach(test.vm, range, PAGES * PAGE_BYTES));
    MUST(vm_range_end(test.vm, range));
}

/* Whoever may spend only so much time stops after the first two pages where the driver is slow, and
 * goes on where it is not. */
static void budget(void) {
    enum { PAGES = 160, FIRST = 2 };
    const uint64_t short_ns = 200000, bytes = PAGES * PAGE_BYTES;
    test.vm->under_pressure = true; /* no large extents */
    uint64_t segment = vm_reserve(test.vm, bytes, 5);
    MUST(segment && vm_commit(test.vm, segment, bytes, false));
    MUST(!vm_prefetch_wanted(test.vm));
    vm_mark_idle(test.vm, segment, bytes, true);
    struct vm_age age = vm_age(test.vm);
    vm_fence_poll(test.vm, false);
    MUST(vm_fence_wait(test.vm));
    fake.slow_us = 1000;
    for (unsigned i = 0; i < 3; i++)
        MUST(vm_reclaim_decayed(test.vm, UINT64_MAX, age, short_ns) == FIRST * PAGE_BYTES);
    fake.slow_us = 0;
    MUST(vm_reclaim_decayed(test.vm, UINT64_MAX, age, 60 * SECOND_NS) ==
         (PAGES - 3 * FIRST) * PAGE_BYTES);
    MUST(vm_unreserve(test.vm, segment));
}

/* Above the threshold idle pages are used before new memory is asked for, and only above it. */
static void above_threshold(void) {
    enum { PAGES = 160, HALF = LARGE_CAPACITY / 2 };
    uint64_t first = segment_in_use(PAGES);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES, true);
    uint64_t second = segment_in_use(PAGES);
    MUST(physical() == 2 * PAGES);
    uint64_t third = segment_in_use(PAGES);
    MUST(physical() >= HALF && physical() < HALF + PAGES / 8);
    MUST(vm_commit(test.vm, first, PAGES * PAGE_BYTES, false)); /* nothing is idle any more */
    MUST(physical() == 3 * PAGES);
    end_used(first, PAGES);
    end_used(second, PAGES);
    end_used(third, PAGES);
}

static void *end_asking_soon(void *unused) {
    usleep(20000);
    atomic_store(&test.vm->fence.taken, false);
    return unused;
}

static bool is_settled(void) {
    return vm_fenced_epoch(test.vm) == vm_epoch(test.vm);
}

/* Before a capture the GPU is asked once more, though another thread is asking it just now and may
 * have begun too early; and waited for where memory is short, only there. */
static void capture_nears(void) {
    enum { PAGES = 160, MORE = LARGE_CAPACITY - LARGE_CAPACITY / 20 - PAGES, ALWAYS = 1000000 };
    uint64_t first = segment_in_use(PAGES);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES, true);
    pthread_t other;
    atomic_store(&test.vm->fence.taken, true);
    MUST(pthread_create(&other, NULL, end_asking_soon, NULL) == 0);
    vm_capture_prepare(test.vm);
    MUST(is_settled() && pthread_join(other, NULL) == 0);
    MUST(vm_commit(test.vm, first, PAGES * PAGE_BYTES, false));
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES, true);
    fake.answers = ALWAYS;
    vm_capture_prepare(test.vm);
    MUST(!is_settled() && vm_figures(test.vm).waits == 0);
    uint64_t second = segment_in_use(MORE);
    vm_mark_idle(test.vm, second, MORE * PAGE_BYTES, true);
    fake.answers = ALWAYS;
    vm_capture_prepare(test.vm);
    MUST(is_settled() && vm_figures(test.vm).waits == 1);
    atomic_store(&test.vm->fence.taken, true); /* in the parent of a forked child */
    vm_forget(test.vm);
    vm_capture_prepare(test.vm);
    MUST(vm_unreserve(test.vm, first) && vm_unreserve(test.vm, second));
}

static const struct alone cases[] = {
    {"storm", storm, SMALL, 100},
    {"revoked", detached, BOASTING, 100},
    {"pieces", extents, BOASTING, 100},
    {"small", small_in_large, BOASTING, 100},
    {"high", frugal_high, BOASTING, 0},
    {"waits", frugal_few_waits, BOASTING, 0},
    {"refused", frugal_refused, BOASTING, 0},
    {"whole", frugal_whole, BOASTING, 0},
    {"growing", growing_range, LARGE, 100},
    {"last", last_pieces, LARGE, 100},
    {"halved", halved, LARGE, 100},
    {"spare", spare_piece, LARGE, 100},
    {"no-spare", no_spare_piece, LARGE, 50},
    {"short-spare", short_spare_piece, LARGE, 100},
    {"late-spare", late_spare_piece, SMALL, 100},
    {"budget", budget, LARGE, 100},
    {"threshold", above_threshold, LARGE, 50},
    {"nears", capture_nears, LARGE, 100},
};

const struct alone *alone_find(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        if (!strcmp(cases[i].name, name))
            return &cases[i];
    return NULL;
}
