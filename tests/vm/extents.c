/* extents.c: in which pieces blocks get their memory, for one thread on the small driver of
 * fake_driver.c, call by call, and what these keep for blocks that survive their neighbours. */
#include "threads.h"

/* --- extents --- */

/* A block that misses 160 pages costs as many extents as it has of 10 pages, and one call that
 * opens them all; one call unmaps them. How much there is is not asked for each of them. */
void extents_runs(void) {
    enum { PAGES = 160, EXTENTS = PAGES / LARGEST_EXTENT, OPEN = 1, STALE_MS = 2 };
    uint64_t segment = vm_reserve(test.vm, PAGES * PAGE_BYTES, 5);
    unsigned calls = atomic_load(&fake.calls), infos = atomic_load(&fake.infos);
    uint64_t begun_ns = clock_ns();
    use(segment, PAGES);
    MUST(atomic_load(&fake.calls) == calls + 2 * EXTENTS + OPEN && fake.large == EXTENTS);
    uint64_t took_ns = clock_ns() - begun_ns;
    MUST(atomic_load(&fake.infos) - infos <= 1 + took_ns / (STALE_MS * MILLISECOND_NS));
    calls = atomic_load(&fake.calls);
    use(segment, PAGES);
    use(segment + 60 * PAGE_BYTES, PAGES - 60); /* whole extents */
    MUST(atomic_load(&fake.calls) == calls);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_ATTACHED, PAGES) == PAGES);
    MUST(atomic_load(&fake.calls) == calls + 1);
    MUST(vm_unreserve(test.vm, segment));
}

static uint64_t handle_at(uint64_t range, size_t page) {
    return fake.place[place_of(range) + page];
}

/* lowvram: a block gets extents by the pages that are its alone. The pages at its ends, which it
 * may share, are single: a neighbour keeps no more than its own. */
void extents_inner_pages(void) {
    enum { PAGES = 16 };
    const uint64_t half = PAGE_BYTES / 2, bytes = 8 * PAGE_BYTES, more = 4 * PAGE_BYTES + half;
    uint64_t range = range_of(PAGES), first = range + half, second = first + bytes;
    MUST(vm_commit(test.vm, first, bytes, false)); /* pages 0 to 8; its alone are 1 to 7 */
    MUST(handle_at(range, 0) != handle_at(range, 1) && handle_at(range, 7) != handle_at(range, 8));
    MUST(handle_at(range, 1) == handle_at(range, 4) && handle_at(range, 5) == handle_at(range, 6));
    MUST(vm_commit(test.vm, second, more, false)); /* pages 8 to 12, and behind it 13 */
    MUST(handle_at(range, 9) == handle_at(range, 12) && physical() == 13 + BEHIND);
    vm_mark_idle(test.vm, first, bytes);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_ATTACHED, PAGES) == 8);
    MUST(vm_figures(test.vm).mapped_bytes == (5 + BEHIND) * PAGE_BYTES);
    vm_mark_idle(test.vm, second, more);
    end_range(range, PAGES);
}

static void two_in_a_row(uint64_t address) {
    MUST(vm_commit(test.vm, address, PAGE_BYTES, false));
    MUST(vm_commit(test.vm, address + PAGE_BYTES, PAGE_BYTES, false));
}

/* Small blocks in a row share extents, as long as what these keep for blocks that survive their
 * neighbours is at most a 256th of the device: here 31 pages. */
void extents_shared(void) {
    enum { PAGES = 256, EXTENT = 10, KEEPS = EXTENT - 1, EXTENTS = 4 /* that keep more than 31 */ };
    fake.boast = 16;
    uint64_t range = range_of(PAGES), half = PAGE_BYTES / 2;
    for (size_t i = 0; i < 2 * EXTENT; i++) /* each reaches into two pages */
        MUST(vm_commit(test.vm, range + half + i * PAGE_BYTES, PAGE_BYTES, false));
    size_t all = 2 + 2 * EXTENT; /* the first lies in a row with none */
    MUST(physical() == all && handle_at(range, 2) == handle_at(range, 2 + KEEPS));
    for (size_t i = 2; i < 4; i++) /* an extent of which a page is idle is not */
        vm_mark_idle(test.vm, range + half + i * PAGE_BYTES, PAGE_BYTES);
    MUST(idle(IDLE_ATTACHED) == 0 && vm_reclaim_now(test.vm, UINT64_MAX) == 0);
    for (size_t i = 2; i < 4; i++)
        MUST(vm_commit(test.vm, range + half + i * PAGE_BYTES, PAGE_BYTES, false));
    for (size_t i = 0; i < 2 * EXTENT; i++)
        vm_mark_idle(test.vm, range + half + i * PAGE_BYTES, PAGE_BYTES);
    use(range + 5 * PAGE_BYTES, 1); /* as it lies */
    MUST(physical() == all);
    vm_reclaim_now(test.vm, UINT64_MAX);
    MUST(physical() == 0);
    for (size_t i = 0; i <= EXTENTS; i++)
        two_in_a_row(range + i * 2 * EXTENT * PAGE_BYTES);
    MUST(physical() == EXTENTS * (2 + EXTENT) + 2 + BEHIND);
    vm_mark_idle(test.vm, range + PAGE_BYTES, PAGE_BYTES);
    two_in_a_row(range + 200 * PAGE_BYTES);
    MUST(physical() == (EXTENTS + 1) * (2 + EXTENT) + 2 + BEHIND);
    fake.boast = 1;
    MUST(vm_detach(test.vm, range, PAGES * PAGE_BYTES) && vm_range_end(test.vm, range));
}

/* Whether two in a row do; and that neither the end of a large one does, nor a small one behind it:
 * a small one that survives would keep what was the large one's. */
static bool share(void) {
    enum { PAGES = 48, LARGE = 20, END = 12 + LARGE };
    const uint64_t half = PAGE_BYTES / 2, range = range_of(PAGES), large = LARGE * PAGE_BYTES;
    forget_reading();
    two_in_a_row(range);
    MUST(vm_commit(test.vm, range + 12 * PAGE_BYTES, large + half, false));
    MUST(vm_commit(test.vm, range + 12 * PAGE_BYTES + large + half, PAGE_BYTES, false));
    bool shares = handle_at(range, 2) == handle_at(range, 3);
    MUST(handle_at(range, END) >= FIRST_HANDLE && handle_at(range, END + 1) >= FIRST_HANDLE);
    MUST(handle_at(range, END) != handle_at(range, END + 1));
    MUST(vm_detach(test.vm, range, PAGES * PAGE_BYTES) && vm_range_end(test.vm, range));
    vm_reclaim_now(test.vm, UINT64_MAX);
    return shares;
}

/* Also where others have so much that the device is above the threshold: the bound is the same. */
void extents_shared_above(void) {
    fake.boast = 16;
    MUST(share());
    fake.pages_elsewhere = 3 * fake.capacity;
    MUST(share());
    fake.pages_elsewhere = 0;
    fake.boast = 1;
}

/* Whether the end of a large block, right behind two small ones, shares an extent with what comes.
 */
static bool end_shares(size_t small_pages, bool one_goes) {
    enum { PAGES = 48, LARGE = 10 };
    const uint64_t range = range_of(PAGES), small = small_pages * PAGE_BYTES, half = PAGE_BYTES / 2;
    const size_t end = 2 * small_pages + LARGE;
    forget_reading();
    MUST(vm_commit(test.vm, range, small, false) &&
         vm_commit(test.vm, range + small, small, false));
    if (one_goes)
        vm_mark_idle(test.vm, range, small);
    MUST(vm_commit(test.vm, range + 2 * small, LARGE * PAGE_BYTES + half, false));
    bool shares = handle_at(range, end) == handle_at(range, end + 1);
    MUST(vm_detach(test.vm, range, PAGES * PAGE_BYTES) && vm_range_end(test.vm, range));
    vm_reclaim_now(test.vm, UINT64_MAX);
    return shares;
}

/* A large block does while the small ones before it outweigh it and none of them has gone, as where
 * a model is loaded. */
void extents_row(void) {
    fake.boast = 16;
    MUST(end_shares(6, false));
    MUST(!end_shares(1, false));
    MUST(!end_shares(6, true));
    fake.boast = 1;
}

/* What kernels read past the end of a block is mapped as long as the block lives, and as far as its
 * segment goes, whatever comes and goes there. A block can do without where memory is short. */
void extents_behind(void) {
    enum { PAGES = 16, PART = 4 };
    uint64_t range = range_of(PAGES), next = range + PART * PAGE_BYTES, bytes = PART * PAGE_BYTES;
    MUST(vm_commit(test.vm, range, bytes - OVERREAD_BYTES, false) && physical() == PART);
    vm_mark_idle(test.vm, range, bytes - OVERREAD_BYTES);
    bytes -= OVERREAD_BYTES - 1;
    MUST(vm_commit(test.vm, range, bytes, false) && physical() == PART + BEHIND);
    use(next, PART);
    MUST(vm_fence_wait(test.vm));
    MUST(vm_decommit(test.vm, IDLE_ATTACHED, PAGES) == PART && handle_at(range, PART));
    MUST(vm_detach(test.vm, next, PART * PAGE_BYTES)); /* PyTorch alone would have nothing there */
    MUST(idle(IDLE_RETAINED) == 1 && vm_attach(test.vm, next, PART * PAGE_BYTES));
    MUST(idle(IDLE_RETAINED) + idle(IDLE_ATTACHED) == 0);
    vm_mark_idle(test.vm, range, bytes);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_ATTACHED, PAGES) == PART + BEHIND);
    vm_reclaim_now(test.vm, UINT64_MAX);
    fake.capacity = PART;
    forget_reading();
    MUST(vm_commit(test.vm, range, bytes, false) && physical() == PART);
    MUST(handle_at(range, PART) < FIRST_HANDLE);
    vm_mark_idle(test.vm, range, bytes);
    end_range(range, PAGES);
}

/* An extent is at most a 256th of the device, and has 10 pages. */
void extents_largest(void) {
    static const struct {
        unsigned boast; /* the device says that it has 510 times so many pages */
        size_t largest;
    } cases[] = {{1, 1}, {2, 3}, {3, 5}, {4, 7}, {16, 10}, {100, 10}};
    enum { PAGES = 128 };
    uint64_t range = range_of(PAGES);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        fake.boast = cases[i].boast;
        forget_reading();
        unsigned calls = atomic_load(&fake.calls);
        use(range, PAGES);
        size_t extents = (PAGES + cases[i].largest - 1) / cases[i].largest;
        MUST(atomic_load(&fake.calls) == calls + 2 * extents + 1);
        MUST(vm_reclaim_now(test.vm, UINT64_MAX) == PAGES * PAGE_BYTES);
    }
    fake.boast = 1;
    end_range(range, PAGES);
}

/* Where the driver refuses an extent the next is half as large. */
void extents_halved(void) {
    enum { PAGES = 40, OPEN = 1 };
    uint64_t range = range_of(PAGES);
    for (unsigned largest = 5, refused = 1; largest; largest /= 2, refused++) {
        unsigned calls = atomic_load(&fake.calls), extents = PAGES / largest;
        fake.largest = largest; /* the first that is asked for has 10 */
        use(range, PAGES);
        MUST(atomic_load(&fake.calls) == calls + refused + 2 * extents + OPEN);
        MUST(vm_reclaim_now(test.vm, UINT64_MAX) == PAGES * PAGE_BYTES);
    }
    fake.largest = 0;
    end_range(range, PAGES);
}

/* --- idle extents that a smaller block comes to --- */

/* A block takes idle extents as they lie as long as what these keep beyond it is within the bound,
 * 31 pages: of each of three extents one page is used. Returns their range. */
static uint64_t keep_most(void) {
    enum { EXTENT = 10, EXTENTS = 3 };
    uint64_t range = range_of(EXTENT * EXTENTS);
    use(range, EXTENT * EXTENTS);
    unsigned calls = atomic_load(&fake.calls);
    for (size_t i = 0; i < EXTENTS; i++)
        MUST(vm_commit(test.vm, range + i * EXTENT * PAGE_BYTES, PAGE_BYTES, false));
    MUST(atomic_load(&fake.calls) == calls && physical() == EXTENT * EXTENTS);
    return range;
}

static void keep_none(uint64_t range) {
    enum { EXTENT = 10, EXTENTS = 3 };
    MUST(vm_detach(test.vm, range, EXTENT * EXTENTS * PAGE_BYTES) && vm_range_end(test.vm, range));
}

/* When a block goes whose extent kept as much, there is room for another one. */
void extents_kept(void) {
    enum { EXTENT = 10, PAGES = 2 * EXTENT };
    fake.boast = 16;
    uint64_t kept = keep_most(), range = range_of(PAGES);
    use(range, PAGES);
    MUST(vm_commit(test.vm, range, PAGE_BYTES, false));
    MUST(handle_at(range, EXTENT - 1) < FIRST_HANDLE); /* that was one too many */
    vm_mark_idle(test.vm, kept, PAGE_BYTES);
    MUST(vm_commit(test.vm, range + EXTENT * PAGE_BYTES, PAGE_BYTES, false));
    MUST(handle_at(range, EXTENT) == handle_at(range, PAGES - 1));
    vm_mark_idle(test.vm, range, PAGE_BYTES);
    vm_mark_idle(test.vm, range + EXTENT * PAGE_BYTES, PAGE_BYTES);
    end_range(range, PAGES);
    keep_none(kept);
    fake.boast = 1;
}

/* Above the threshold, where others have so much, only blocks in a row do. */
void extents_kept_above(void) {
    enum { EXTENT = 10, PAGES = 2 * EXTENT };
    fake.boast = 16;
    uint64_t range = range_of(PAGES);
    use(range, PAGES);
    fake.pages_elsewhere = 3 * fake.capacity;
    vm_room(test.vm, MEMINFO_ANEW);
    MUST(vm_commit(test.vm, range, PAGE_BYTES, false));
    MUST(handle_at(range, EXTENT - 1) < FIRST_HANDLE);
    MUST(vm_commit(test.vm, range + PAGE_BYTES, (EXTENT - 1) * PAGE_BYTES, false));
    MUST(vm_commit(test.vm, range + EXTENT * PAGE_BYTES, PAGE_BYTES, false));
    MUST(handle_at(range, EXTENT) == handle_at(range, PAGES - 1));
    fake.pages_elsewhere = 0;
    MUST(vm_detach(test.vm, range, PAGES * PAGE_BYTES) && vm_range_end(test.vm, range));
    fake.boast = 1;
}

/* Beyond the bound the block gets pages of its own, and the extent goes back, for nobody else can
 * use it. */
void extents_replaced(void) {
    enum { PAGES = 23, EXTENT = 10 }; /* extents of 10, 10 and 3 pages */
    fake.boast = 16;
    uint64_t elsewhere = keep_most(), range = range_of(PAGES), middle = range + 14 * PAGE_BYTES;
    size_t kept = physical();
    uint64_t waited = waits();
    use(range, PAGES);
    MUST(vm_commit(test.vm, middle, PAGE_BYTES, false));
    MUST(physical() == kept + PAGES - EXTENT + 1 + BEHIND && waits() == waited);
    MUST(idle(IDLE_ATTACHED) == PAGES - EXTENT);
    vm_mark_idle(test.vm, middle, PAGE_BYTES);
    use(range, PAGES);
    MUST(physical() == kept + PAGES);
    vm_reclaim_now(test.vm, UINT64_MAX); /* which waits */
    use(range, PAGES);
    uint64_t across = range + (EXTENT - 1) * PAGE_BYTES; /* the end of one, the begin of the next */
    MUST(vm_commit(test.vm, across, 2 * PAGE_BYTES, false));
    MUST(idle(IDLE_ATTACHED) == 3 && waits() == waited + 1);
    MUST(cached() == 0); /* nothing of a cached size would do */
    MUST(physical() == kept + 3 + 2 + BEHIND);
    vm_mark_idle(test.vm, across, 2 * PAGE_BYTES);
    vm_reclaim_now(test.vm, UINT64_MAX);
    use(range, PAGES);
    uint64_t unmaps = vm_figures(test.vm).unmaps;
    MUST(vm_commit(test.vm, range, (EXTENT + 1) * PAGE_BYTES,
                   false)); /* all of the first, one of the next */
    MUST(vm_figures(test.vm).unmaps == unmaps + EXTENT && idle(IDLE_ATTACHED) == 3);
    vm_mark_idle(test.vm, range, (EXTENT + 1) * PAGE_BYTES);
    end_range(range, PAGES);
    keep_none(elsewhere);
    fake.boast = 1;
}

/* Where the GPU is not past it the block gets the extent as it lies, and keeps all of it, beyond
 * the bound, too: the GPU is not waited for. */
void extents_not_replaced(void) {
    enum { PAGES = 13, FIRST = 10 };
    fake.boast = 16;
    uint64_t elsewhere = keep_most(), range = range_of(PAGES), waited = waits();
    use(range, PAGES);
    fake.answers = ALWAYS;
    unsigned calls = atomic_load(&fake.calls);
    MUST(vm_commit(test.vm, range, PAGE_BYTES, false));
    MUST(atomic_load(&fake.calls) == calls && waits() == waited);
    MUST(vm_fence_wait(test.vm));
    MUST(vm_decommit(test.vm, IDLE_ATTACHED, PAGES) == PAGES - FIRST);
    vm_mark_idle(test.vm, range, PAGE_BYTES);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_ATTACHED, PAGES) == FIRST);
    end_range(range, PAGES);
    keep_none(elsewhere);
    fake.boast = 1;
}
