/* extents.c: in which pieces blocks get their memory, for one thread on the small driver of
 * fake_driver.c, call by call, and what these keep for blocks that survive their neighbours. */
#include "threads.h"

/* --- extents --- */

enum { ROW_PAGES = 160, ROW_MOST = 2048 };

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
    MUST(atomic_load(&fake.calls) == calls);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_KEPT, PAGES) == PAGES);
    MUST(atomic_load(&fake.calls) == calls + 1);
    MUST(vm_unreserve(test.vm, segment));
}

static uint64_t handle_at(uint64_t range, size_t page) {
    return fake.place[place_of(range) + page];
}

/* A block gets extents by the pages that are its alone. The pages at its ends, which it may share,
 * are single, and so is its first one where a block that ends there would have it behind it. */
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
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_KEPT, PAGES) == 8);
    MUST(vm_figures(test.vm).mapped_bytes == (5 + BEHIND) * PAGE_BYTES);
    vm_mark_idle(test.vm, second, more);
    end_range(range, PAGES);
}

/* What the blocks of a row need: the pages that they reach into, and those behind them. */
struct row {
    uint64_t range, begin[ROW_MOST], bytes[ROW_MOST];
    bool live[ROW_MOST];
    size_t count;
};

static size_t needed(const struct row *row, size_t pages) {
    bool needs[ROW_PAGES] = {0};
    size_t sum = 0;
    for (size_t i = 0; i < row->count; i++) {
        uint64_t last = row->begin[i] + row->bytes[i] - 1 + OVERREAD_BYTES;
        for (uint64_t at = row->begin[i]; row->live[i] && at < last + PAGE_BYTES; at += PAGE_BYTES)
            needs[min_u64(min_u64(at, last) / PAGE_BYTES, pages - 1)] = true;
    }
    for (size_t i = 0; i < pages; i++)
        sum += needs[i];
    return sum;
}

static void add_block(struct row *row, uint64_t begin, uint64_t bytes) {
    size_t i = row->count++;
    MUST(vm_commit(test.vm, row->range + begin, bytes, false));
    row->begin[i] = begin;
    row->bytes[i] = bytes;
    row->live[i] = true;
}

/* Blocks of 512 bytes to `most` come one right behind the other; some end where a page does. */
static void fill_row(struct row *row, uint64_t most) {
    uint64_t at = 0, bytes;
    for (row->count = 0; row->count < ROW_MOST; at += bytes) {
        bytes = (1 + below((unsigned)(most / 512))) * 512;
        if (!below(4))
            bytes = (at + bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES - at;
        if (at + bytes > ROW_PAGES * PAGE_BYTES)
            return;
        add_block(row, at, bytes);
    }
}

static size_t live_count(const struct row *row) {
    size_t count = 0;
    for (size_t i = 0; i < row->count; i++)
        count += row->live[i];
    return count;
}

/* Whatever goes first: at each moment no more than what the live ones need is not idle. */
static void empty_row(struct row *row) {
    unsigned count = (unsigned)row->count;
    for (size_t left = live_count(row); left > 0; left--) {
        size_t i = below(count);
        while (!row->live[i])
            i = (i + 1) % count;
        row->live[i] = false;
        vm_mark_idle(test.vm, row->range + row->begin[i], row->bytes[i]);
        size_t pages = vm_figures(test.vm).mapped_bytes / PAGE_BYTES;
        MUST(pages - idle(IDLE_KEPT) == needed(row, ROW_PAGES));
        if (below(count / 4 + 1) == 0)
            vm_reclaim(test.vm, UINT64_MAX, VM_WAIT);
        if (below(count) == 0)
            return; /* the next ones come between those that stay */
    }
}

/* The blocks that stay come first: those that come next lie where idle extents are left. */
static void add_between(struct row *row) {
    for (size_t i = 0; i < row->count; i++) {
        if (row->live[i] || below(2))
            continue;
        if (below(2))
            row->bytes[i] = (1 + below((unsigned)(row->bytes[i] / 512))) * 512;
        MUST(vm_commit(test.vm, row->range + row->begin[i], row->bytes[i], false));
        row->live[i] = true;
    }
}

/* A block that stays keeps its own pages, and the one behind it, whoever else came or goes. */
void extents_survivors(void) {
    static const uint64_t most[] = {PAGE_BYTES / 8, PAGE_BYTES, 4 * PAGE_BYTES, 40 * PAGE_BYTES};
    struct row row = {.range = range_of(ROW_PAGES)};
    fake.boast = 16;
    fake.prompt = true;
    for (int round = 0; round < 200; round++) {
        fill_row(&row, most[round % 4]);
        for (int again = 0; again < 8; again++) {
            empty_row(&row);
            add_between(&row);
        }
        for (size_t i = 0; i < row.count; i++)
            if (row.live[i])
                vm_mark_idle(test.vm, row.range + row.begin[i], row.bytes[i]);
        MUST(idle(IDLE_KEPT) == vm_figures(test.vm).mapped_bytes / PAGE_BYTES);
        if (round % 3 == 0)
            vm_reclaim(test.vm, UINT64_MAX, VM_WAIT);
    }
    fake.boast = 1;
    fake.prompt = false;
    end_range(row.range, ROW_PAGES);
}

/* What kernels read past the end of a block is mapped as long as the block lives, and as far as its
 * segment goes, whatever comes and goes there. Where there is no memory for it there is none for
 * the block. */
void extents_behind(void) {
    enum { PAGES = 16, PART = 4 };
    uint64_t range = range_of(PAGES), next = range + PART * PAGE_BYTES, bytes = PART * PAGE_BYTES;
    MUST(vm_commit(test.vm, range, bytes - OVERREAD_BYTES, false) && physical() == PART);
    vm_mark_idle(test.vm, range, bytes - OVERREAD_BYTES);
    bytes -= OVERREAD_BYTES - 1;
    MUST(vm_commit(test.vm, range, bytes, false) && physical() == PART + BEHIND);
    use(next, PART);
    MUST(vm_fence_wait(test.vm));
    MUST(vm_decommit(test.vm, IDLE_KEPT, PAGES) == PART && handle_at(range, PART));
    MUST(vm_detach(test.vm, next, PART * PAGE_BYTES)); /* PyTorch alone would have nothing there */
    MUST(idle(IDLE_RETURNED) == 1 && vm_attach(test.vm, next, PART * PAGE_BYTES));
    MUST(idle(IDLE_RETURNED) + idle(IDLE_KEPT) == 0);
    vm_mark_idle(test.vm, range, bytes);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_KEPT, PAGES) == PART + BEHIND);
    vm_reclaim(test.vm, UINT64_MAX, VM_WAIT);
    fake.capacity = PART;
    forget_reading();
    MUST(!vm_commit(test.vm, range, bytes, false));
    MUST(vm_commit(test.vm, range, bytes - 1, false) && physical() == PART);
    vm_mark_idle(test.vm, range, bytes - 1);
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
        MUST(vm_reclaim(test.vm, UINT64_MAX, VM_WAIT) == PAGES * PAGE_BYTES);
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
        MUST(vm_reclaim(test.vm, UINT64_MAX, VM_WAIT) == PAGES * PAGE_BYTES);
    }
    fake.largest = 0;
    end_range(range, PAGES);
}

/* While less than 90 % are in use what PyTorch has just mapped comes in large pieces, of two 256ths
 * of the device at most; the page behind another block is none of them, nor the rest of a step.
 * What a block would use a part of stays where it is no larger than 20 MiB. Once the card has been
 * full, and not only would have been, it does not, nor is what was mapped before in large pieces.
 */
void extents_roomy(void) {
    enum { PAGES = 110, STEP = LARGEST_EXTENT, FIRST = 80, REST = PAGES - FIRST - STEP };
    enum { MADE = 1 + 3 + 1, LARGE = 3, OPEN = 3 }; /* 80; 1, 19 and 1 behind; 10 */
    const unsigned elsewhere = fake.pages_elsewhere;
    uint64_t range = range_of(PAGES), small = range_of(STEP), step = STEP * PAGE_BYTES;
    uint64_t middle = range + FIRST * PAGE_BYTES, last = middle - PAGE_BYTES;
    fake.boast = 21;
    fake.pages_elsewhere = 9 * fake.capacity - 3;
    forget_reading();
    vm_mapped(test.vm, range, FIRST * PAGE_BYTES);
    fake.pages_elsewhere = elsewhere;
    forget_reading();
    unsigned calls = atomic_load(&fake.calls);
    MUST(vm_detach(test.vm, middle, (REST + STEP) * PAGE_BYTES));
    vm_mapped(test.vm, range, FIRST * PAGE_BYTES);
    MUST(vm_commit(test.vm, range, FIRST * PAGE_BYTES, false));
    MUST(vm_attach(test.vm, middle, (REST + STEP) * PAGE_BYTES));
    vm_mapped(test.vm, middle, (REST + STEP) * PAGE_BYTES);
    use(middle, REST);
    vm_mark_idle(test.vm, range, FIRST * PAGE_BYTES);
    vm_mapped(test.vm, small, step);
    use(small, STEP);
    MUST(atomic_load(&fake.calls) == calls + 2 * MADE + OPEN && fake.large == LARGE);
    MUST(physical() == FIRST + REST + BEHIND + STEP && idle(IDLE_KEPT) == physical());
    use(range, FIRST + REST);
    use(small + PAGE_BYTES, 1);
    MUST(atomic_load(&fake.calls) == calls + 2 * MADE + OPEN);
    MUST(vm_commit(test.vm, last, PAGE_BYTES, false)); /* the 80 go for it */
    MUST(physical() == 1 + REST + BEHIND + STEP);
    MUST(idle(IDLE_KEPT) == physical() - 1 - BEHIND);
    vm_mark_idle(test.vm, last, PAGE_BYTES);
    fake.pages_elsewhere = 9 * (fake.capacity + 1);
    forget_reading();
    vm_mapped(test.vm, range, PAGES * PAGE_BYTES);
    fake.pages_elsewhere = elsewhere;
    forget_reading();
    vm_mapped(test.vm, range, PAGES * PAGE_BYTES); /* roomy again */
    use(small + PAGE_BYTES, 1);
    MUST(physical() == 1 + REST + BEHIND + 1 + BEHIND);
    MUST(vm_reclaim(test.vm, UINT64_MAX, VM_WAIT) > 0 && physical() == 0);
    vm_mapped(test.vm, range, FIRST * PAGE_BYTES);
    fake.pages_elsewhere = 9 * (fake.capacity + 1);
    forget_reading();
    use(range, FIRST);
    MUST(fake.large == LARGE + FIRST / STEP && vm_reclaim(test.vm, UINT64_MAX, VM_WAIT) > 0);
    fake.pages_elsewhere = elsewhere;
    fake.boast = 1;
    forget_reading();
    end_range(range, PAGES);
    end_range(small, STEP);
}

/* A range that ended is had again by who needs one of that size, with its memory. */
void extents_range_again(void) {
    enum { PAGES = 20 };
    uint64_t range = range_of(PAGES);
    use(range, PAGES);
    MUST(vm_fence_wait(test.vm) && vm_detach(test.vm, range, PAGES * PAGE_BYTES));
    MUST(vm_range_end(test.vm, range) == VM_RANGE_ENDED);
    fake.answers = ALWAYS;
    MUST(!vm_range_revive(test.vm, PAGES * PAGE_BYTES)); /* the GPU may work on it */
    fake.answers = 0;
    MUST(!vm_range_revive(test.vm, 2 * PAGES * PAGE_BYTES));
    unsigned calls = atomic_load(&fake.calls);
    MUST(vm_range_revive(test.vm, PAGES * PAGE_BYTES) == range);
    MUST(!vm_range_revive(test.vm, PAGES * PAGE_BYTES));
    MUST(vm_attach(test.vm, range, PAGES * PAGE_BYTES));
    use(range, PAGES);
    MUST(atomic_load(&fake.calls) == calls);
    end_range(range, PAGES);
}

/* --- idle extents that a smaller block comes to --- */

/* The block gets pages of its own, and the extent goes back, for nobody else can use it. */
void extents_replaced(void) {
    enum { PAGES = 23, EXTENT = 10 }; /* extents of 10, 10 and 3 pages */
    fake.boast = 16;
    uint64_t range = range_of(PAGES), middle = range + 14 * PAGE_BYTES, waited = waits();
    use(range, PAGES);
    MUST(vm_commit(test.vm, middle, PAGE_BYTES, false));
    MUST(physical() == PAGES - EXTENT + 1 + BEHIND && waits() == waited);
    MUST(idle(IDLE_KEPT) == PAGES - EXTENT);
    vm_mark_idle(test.vm, middle, PAGE_BYTES);
    use(range, PAGES);
    MUST(physical() == PAGES);
    vm_reclaim(test.vm, UINT64_MAX, VM_WAIT); /* which waits */
    use(range, PAGES);
    uint64_t across = range + (EXTENT - 1) * PAGE_BYTES; /* the end of one, the begin of the next */
    MUST(vm_commit(test.vm, across, 2 * PAGE_BYTES, false));
    MUST(idle(IDLE_KEPT) == 3 && waits() == waited + 1);
    MUST(cached() == 0); /* nothing of a cached size would do */
    MUST(physical() == 3 + 2 + BEHIND);
    vm_mark_idle(test.vm, across, 2 * PAGE_BYTES);
    vm_reclaim(test.vm, UINT64_MAX, VM_WAIT);
    use(range, PAGES);
    uint64_t unmaps = vm_figures(test.vm).unmaps;
    MUST(vm_commit(test.vm, range, (EXTENT + 1) * PAGE_BYTES,
                   false)); /* all of the first, one of the next */
    MUST(vm_figures(test.vm).unmaps == unmaps + EXTENT && idle(IDLE_KEPT) == 3);
    vm_mark_idle(test.vm, range, (EXTENT + 1) * PAGE_BYTES);
    end_range(range, PAGES);
    fake.boast = 1;
}

/* Where the GPU is not past it the block gets the extent as it lies, and keeps all of it: the GPU
 * is not waited for. */
void extents_not_replaced(void) {
    enum { PAGES = 13, FIRST = 10 };
    fake.boast = 16;
    uint64_t range = range_of(PAGES), waited = waits();
    use(range, PAGES);
    fake.answers = ALWAYS;
    unsigned calls = atomic_load(&fake.calls);
    MUST(vm_commit(test.vm, range, PAGE_BYTES, false));
    MUST(atomic_load(&fake.calls) == calls && waits() == waited);
    MUST(vm_fence_wait(test.vm));
    use(range + 4 * PAGE_BYTES, 1); /* a neighbour that goes does not make it idle */
    MUST(vm_fence_wait(test.vm));
    MUST(vm_decommit(test.vm, IDLE_KEPT, PAGES) == PAGES - FIRST);
    vm_mark_idle(test.vm, range, PAGE_BYTES);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_KEPT, PAGES) == FIRST);
    end_range(range, PAGES);
    fake.boast = 1;
}
