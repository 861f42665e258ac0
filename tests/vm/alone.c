/* alone.c: what the page engine does for one thread on the small driver of fake_driver.c, call by
 * call: which memory a block gets, and when the GPU is waited for. When memory goes back is in
 * decay.c. */
#include "threads.h"

#include <string.h>

void forget_reading(void) {
    test.vm->cache.reading.card.age.end_ns = 0;
}

uint64_t range_of(size_t npages) {
    CUdeviceptr range;
    fake_reserve(&range, npages * PAGE_BYTES, 0, 0, 0);
    MUST(vm_range_add(test.vm, range, npages * PAGE_BYTES, true));
    MUST(vm_attach(test.vm, range, npages * PAGE_BYTES));
    vm_stream_add(test.vm, 5);
    return range;
}

void end_range(uint64_t range, size_t npages) {
    MUST(vm_detach(test.vm, range, npages * PAGE_BYTES) &&
         vm_range_end(test.vm, range) == VM_RANGE_ENDED);
}

uint64_t segment_in_use(size_t npages) {
    uint64_t segment = vm_reserve(test.vm, npages * PAGE_BYTES, 5);
    MUST(segment && vm_commit(test.vm, segment, npages * PAGE_BYTES, false));
    return segment;
}

void end_used(uint64_t segment, size_t npages) {
    vm_mark_idle(test.vm, segment, npages * PAGE_BYTES);
    MUST(vm_unreserve(test.vm, segment));
}

void use(uint64_t address, size_t npages) {
    MUST(vm_commit(test.vm, address, npages * PAGE_BYTES, false));
    work_on(address, npages);
    vm_mark_idle(test.vm, address, npages * PAGE_BYTES);
}

size_t physical(void) {
    return vm_figures(test.vm).physical_bytes / PAGE_BYTES;
}

size_t idle(enum page_idle list) {
    struct vm_figures figures = vm_figures(test.vm);
    uint64_t attached = figures.idle_bytes - figures.returned_bytes;
    return (list == IDLE_RETURNED ? figures.returned_bytes : attached) / PAGE_BYTES;
}

size_t cached(void) {
    return vm_figures(test.vm).cached_bytes / PAGE_BYTES;
}

uint64_t waits(void) {
    return vm_figures(test.vm).waits;
}

/* --- what PyTorch gives up and takes again --- */

static void use_all(uint64_t *segments, size_t count, size_t npages) {
    for (size_t i = 0; i < count; i++) {
        MUST((segments[i] = vm_reserve(test.vm, npages * PAGE_BYTES, 3 + i % 3)) != 0);
        use(segments[i], npages);
    }
}

static void end_all(const uint64_t *segments, size_t count) {
    for (size_t i = 0; i < count; i++)
        MUST(vm_unreserve(test.vm, segments[i]) && !vm_unreserve(test.vm, segments[i]));
}

/* A program that empties PyTorch's cache all the time reaches the driver once. */
static void storm(void) {
    enum { OFTEN = 300, SOME = 20, PAGES = 3 };
    uint64_t segments[SOME];
    fake.capacity = SOME * PAGES;
    use_all(segments, SOME, PAGES);
    unsigned calls = atomic_load(&fake.calls);
    for (size_t i = 0; i < OFTEN; i++) {
        end_all(segments, SOME);
        MUST(vm_figures(test.vm).reserved_bytes == 0 && idle(IDLE_RETURNED) == SOME * PAGES);
        use_all(segments, SOME, PAGES);
        MUST(vm_figures(test.vm).reserved_bytes == SOME * PAGES * PAGE_BYTES);
        MUST(idle(IDLE_RETURNED) == 0);
    }
    MUST(atomic_load(&fake.calls) == calls);
    end_all(segments, SOME);
}

/* The same with expandable segments. The addresses go last. */
static void attach_storm(void) {
    enum { PARTS = 12, PART = 10, LAST = PART, PAGES = PARTS * PART, OFTEN = 300 };
    CUdeviceptr range;
    fake_reserve(&range, PAGES * PAGE_BYTES, 0, 0, 0);
    MUST(vm_range_add(test.vm, range, PAGES * PAGE_BYTES, true));
    vm_stream_add(test.vm, 5);
    for (size_t i = 0; i < PARTS; i++) {
        MUST(vm_attach(test.vm, range + i * PART * PAGE_BYTES, PART * PAGE_BYTES));
        use(range + i * PART * PAGE_BYTES, PART);
    }
    unsigned calls = atomic_load(&fake.calls);
    for (size_t i = 0; i < OFTEN; i++) {
        uint64_t part = range + i % PARTS * PART * PAGE_BYTES;
        MUST(vm_detach(test.vm, part, PART * PAGE_BYTES) &&
             !vm_owns(test.vm, part, &(uint64_t){0}, &(uint64_t){0}));
        MUST(vm_figures(test.vm).reserved_bytes == (PARTS - 1) * PART * PAGE_BYTES);
        MUST(idle(IDLE_RETURNED) == PART);
        MUST(vm_attach(test.vm, part, PART * PAGE_BYTES) && idle(IDLE_RETURNED) == 0);
        use(part, PART);
    }
    MUST(atomic_load(&fake.calls) == calls);
    MUST(vm_range_end(test.vm, range) != VM_RANGE_ENDED);
    end_range(range, PAGES);
    MUST(fake.place[place_of(range)] >= FIRST_HANDLE && vm_fence_wait(test.vm));
    MUST(vm_decommit(test.vm, IDLE_RETURNED, PAGES - LAST) == PAGES - LAST);
    vm_sweep(test.vm);
    MUST(fake.place[place_of(range)] != 0);
    MUST(vm_decommit(test.vm, IDLE_RETURNED, LAST) == LAST);
    vm_sweep(test.vm);
    MUST(fake.place[place_of(range)] == 0);
}

/* --- before new memory is asked for --- */

static uint64_t range_in_use(size_t npages) {
    uint64_t range = range_of(npages);
    MUST(vm_commit(test.vm, range, npages * PAGE_BYTES, false));
    return range;
}

/* What is cached, then what PyTorch has given up; what it has in its cache only above the
 * threshold, which others' memory is here. */
static void order(void) {
    enum { PAGES = 16 };
    uint64_t used[5], empty = vm_reserve(test.vm, 5 * PAGES * PAGE_BYTES, 5); /* PyTorch has more */
    for (size_t i = 0; i < 3; i++)
        used[i] = segment_in_use(PAGES);
    vm_mark_idle(test.vm, used[0], PAGES * PAGE_BYTES);
    end_used(used[1], PAGES);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_RETURNED, PAGES) == PAGES);
    end_used(used[2], PAGES);
    MUST(cached() == PAGES && idle(IDLE_RETURNED) == PAGES && idle(IDLE_KEPT) == PAGES);
    uint64_t made = fake.pages_made, blocks[4];
    blocks[0] = range_in_use(PAGES);
    MUST(cached() == 0 && idle(IDLE_RETURNED) == PAGES);
    blocks[1] = range_in_use(PAGES);
    MUST(idle(IDLE_RETURNED) == 0 && fake.pages_made == made);
    blocks[2] = range_in_use(PAGES);
    MUST(idle(IDLE_KEPT) == PAGES && fake.pages_made == made + PAGES);
    fake.pages_elsewhere = 9 * LARGE_CAPACITY;
    forget_reading();
    blocks[3] = range_in_use(PAGES);
    MUST(idle(IDLE_KEPT) == 0 && fake.pages_made == made + PAGES);
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++)
        end_range(blocks[i], PAGES);
    MUST(vm_unreserve(test.vm, used[0]) && vm_unreserve(test.vm, empty));
}

/* Down to the threshold: as much of what is idle is used as would be above it. */
static void above_threshold(void) {
    enum { PAGES = 100, HALF = LARGE_CAPACITY / 2 };
    uint64_t first = segment_in_use(PAGES);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    uint64_t second = segment_in_use(PAGES);
    MUST(physical() == 2 * PAGES);
    uint64_t third = segment_in_use(PAGES);
    MUST(physical() == HALF && idle(IDLE_KEPT) == PAGES - (3 * PAGES - HALF));
    MUST(vm_commit(test.vm, first, PAGES * PAGE_BYTES, false)); /* nothing is idle any more */
    MUST(physical() == 3 * PAGES);
    end_used(first, PAGES);
    end_used(second, PAGES);
    end_used(third, PAGES);
}

/* Cached memory that is too large for a block, or so small that the block would be in many extents,
 * goes back before new memory is asked for. */
static void unfitting(void) {
    enum { PAGES = 10, LITTLE = 4 };
    uint64_t range = range_of(PAGES), little = range_of(LITTLE), more = range_of(LITTLE + 2);
    use(range, PAGES);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_KEPT, PAGES) == PAGES);
    use(little, LITTLE);
    MUST(physical() == LITTLE && cached() == 0);
    MUST(vm_fence_wait(test.vm) && vm_decommit(test.vm, IDLE_KEPT, LITTLE) == LITTLE);
    uint64_t made = fake.pages_made;
    use(more, LITTLE + 2); /* the 4 will do */
    MUST(fake.pages_made == made + 2 && physical() == LITTLE + 2);
    MUST(vm_fence_wait(test.vm));
    MUST(vm_decommit(test.vm, IDLE_KEPT, PAGES) == LITTLE + 2);
    use(range, PAGES); /* nothing that is less than half of it */
    MUST(fake.pages_made == made + 2 + PAGES && physical() == PAGES);
    end_range(range, PAGES);
    end_range(little, LITTLE);
    end_range(more, LITTLE + 2);
}

/* Never is more physical than PyTorch has reserved: for that the GPU is waited for until it is past
 * the moment at which PyTorch gave memory up, else it is only asked. What PyTorch has in its cache
 * is not touched. */
static void above_reserved(void) {
    enum { PAGES = 120, MORE = 150, LITTLE = 10 };
    fake_install_context_event();
    vm_ask_context(test.vm);
    uint64_t first = segment_in_use(PAGES), second = segment_in_use(PAGES);
    vm_mark_idle(test.vm, second, PAGES * PAGE_BYTES);
    fake.answers = ALWAYS;
    uint64_t third = segment_in_use(MORE);
    MUST(physical() == 2 * PAGES + MORE && idle(IDLE_KEPT) == PAGES && waits() == 0);
    end_used(first, PAGES);
    fake.answers = ALWAYS;
    uint64_t fourth = segment_in_use(MORE); /* no segment of its size has ended */
    MUST(waits() == 1 && idle(IDLE_KEPT) == PAGES && idle(IDLE_RETURNED) == 0);
    MUST(physical() == PAGES + 2 * MORE);
    end_used(third, MORE);
    fake.answers = ALWAYS;
    uint64_t empty = vm_reserve(test.vm, (MORE + LITTLE) * PAGE_BYTES, 5);
    uint64_t fifth = segment_in_use(LITTLE); /* less than would have been without us */
    MUST(waits() == 1 && idle(IDLE_RETURNED) == MORE);
    MUST(physical() == PAGES + 2 * MORE + LITTLE);
    fake.answers = 0;
    uint64_t sixth = segment_in_use(LITTLE); /* the GPU has finished, and was only asked */
    MUST(waits() == 1 && idle(IDLE_RETURNED) < MORE && physical() <= PAGES + 2 * MORE + LITTLE);
    end_used(second, PAGES);
    end_used(fourth, MORE);
    end_used(fifth, LITTLE);
    end_used(sixth, LITTLE);
    MUST(vm_unreserve(test.vm, empty));
}

/* Lowvram: the GPU is asked about all that is idle, and not waited for while there is memory: what
 * it does may wait for this thread. */
static void lowvram(void) {
    enum { PAGES = 160, LITTLE = 5 };
    uint64_t first = segment_in_use(PAGES);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    fake.answers = ALWAYS;
    uint64_t second = segment_in_use(PAGES);
    MUST(physical() == 2 * PAGES && waits() == 0);
    fake.answers = 0;
    uint64_t third = segment_in_use(LITTLE); /* the GPU has finished, and was only asked */
    MUST(physical() <= 2 * PAGES && waits() == 0);
    end_used(second, PAGES);
    end_used(third, LITTLE);
    MUST(vm_unreserve(test.vm, first));
}

/* What the card itself would have free, and what could be had: all that is idle counts. */
static void as_the_card(void) {
    enum { PAGES = 160, PART = 60, USED = PART + BEHIND, LEFT = LARGE_CAPACITY - PAGES };
    uint64_t segment = vm_reserve(test.vm, PAGES * PAGE_BYTES, 5);
    MUST(vm_commit(test.vm, segment, PART * PAGE_BYTES, false));
    MUST(vm_free_as_reserved(test.vm, MEMINFO_ANEW) == LEFT * PAGE_BYTES);
    MUST(vm_could_back(test.vm, (LARGE_CAPACITY - USED) * PAGE_BYTES));
    MUST(!vm_could_back(test.vm, (LARGE_CAPACITY - USED + 1) * PAGE_BYTES));
    vm_mark_idle(test.vm, segment, PART * PAGE_BYTES);
    MUST(vm_free_as_reserved(test.vm, MEMINFO_ANEW) == LEFT * PAGE_BYTES);
    MUST(vm_could_back(test.vm, LARGE_CAPACITY * PAGE_BYTES));
    MUST(vm_unreserve(test.vm, segment));
    MUST(vm_free_as_reserved(test.vm, MEMINFO_ANEW) == LARGE_CAPACITY * PAGE_BYTES);
}

/* Pages go between what we count and what the driver says: what is free is not taken for more. */
static CUresult (*plain_info)(size_t *, size_t *);

static CUresult info_beside_a_release(size_t *free_bytes, size_t *total_bytes) {
    CUresult result = plain_info(free_bytes, total_bytes);
    vm_cache_trim(test.vm, 4, 0); /* the first time, when there are any */
    return result;
}

enum { BESIDE_PAGES = 4 };

static void cache_pages(void) {
    uint64_t segment = segment_in_use(BESIDE_PAGES);
    vm_mark_idle(test.vm, segment, BESIDE_PAGES * PAGE_BYTES);
    MUST(vm_unreserve(test.vm, segment));
    vm_fence_wait(test.vm);
    MUST(vm_decommit(test.vm, IDLE_RETURNED, BESIDE_PAGES) >= BESIDE_PAGES);
}

static void reading_beside(void) {
    cache_pages();
    plain_info = (CUresult(*)(size_t *, size_t *))atomic_load(&real_pointers[ID_cuMemGetInfo_v2]);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)info_beside_a_release);
    struct room room = vm_room(test.vm, MEMINFO_ANEW);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)plain_info);
    MUST(room.free_bytes == (LARGE_CAPACITY - physical()) * PAGE_BYTES);
}

static size_t decayed_beside;

static CUresult info_beside_decay(size_t *free_bytes, size_t *total_bytes) {
    decayed_beside += vm_cache_decay(test.vm, BESIDE_PAGES);
    return plain_info(free_bytes, total_bytes);
}

/* What goes back because it is old waits for who reads the card. */
static void decay_beside(void) {
    cache_pages();
    plain_info = (CUresult(*)(size_t *, size_t *))atomic_load(&real_pointers[ID_cuMemGetInfo_v2]);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)info_beside_decay);
    vm_room(test.vm, MEMINFO_ANEW);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)plain_info);
    MUST(decayed_beside == 0);
    MUST(vm_cache_decay(test.vm, BESIDE_PAGES) == BESIDE_PAGES);
}

/* Pages go between what a program is told by the driver and what we make of it. */
static void told_beside(void) {
    struct meminfo reading;
    cache_pages();
    uint64_t before = vm_moves(test.vm);
    MUST(meminfo_read(&reading) == CUDA_SUCCESS);
    uint64_t told = vm_free_as_told(test.vm, reading.spare_bytes, before);
    MUST(told == LARGE_CAPACITY * PAGE_BYTES);
    MUST(vm_cache_trim(test.vm, BESIDE_PAGES, 0) == BESIDE_PAGES);
    MUST(vm_free_as_told(test.vm, reading.spare_bytes, before) == told);
}

static unsigned infos;

/* On such a driver none is like the one before. */
static CUresult info_beside_releases(size_t *free_bytes, size_t *total_bytes) {
    const struct timespec slow = {.tv_nsec = MILLISECOND_NS};
    infos++;
    nanosleep(&slow, NULL);
    CUresult result = plain_info(free_bytes, total_bytes);
    MUST(vm_cache_trim(test.vm, 1, 0) == 1);
    return result;
}

static unsigned infos_since(void) {
    unsigned count = infos;
    infos = 0;
    return count;
}

/* Each reading costs: beside others' work it is made twice, and once where the program has made one
 * itself; the longer it takes the longer it will do, from its end on. */
static void readings_cost(void) {
    struct meminfo reading;
    for (int i = 0; i < 2; i++)
        cache_pages();
    plain_info = (CUresult(*)(size_t *, size_t *))atomic_load(&real_pointers[ID_cuMemGetInfo_v2]);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)info_beside_releases);
    vm_room(test.vm, MEMINFO_ANEW);
    MUST(infos_since() == 2);
    vm_free_as_told(test.vm, 0, 0);
    MUST(infos_since() == 1);
    uint64_t start_ns = clock_ns();
    MUST(meminfo_read(&reading) == CUDA_SUCCESS);
    MUST(reading.age.cost_ns >= MILLISECOND_NS && reading.age.end_ns >= start_ns + MILLISECOND_NS);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)plain_info);
    uint64_t now_ns = clock_ns(), then_ns = now_ns - SECOND_NS;
    MUST(!meminfo_will_do((struct meminfo_age){then_ns, 50000, false}, MEMINFO_KNOWN));
    MUST(meminfo_will_do((struct meminfo_age){then_ns, SECOND_NS, false}, MEMINFO_KNOWN));
    MUST(meminfo_will_do((struct meminfo_age){then_ns, SECOND_NS, false}, MEMINFO_ANSWER));
    MUST(!meminfo_will_do((struct meminfo_age){then_ns, 10 * MILLISECOND_NS, false},
                          MEMINFO_ANSWER));
    MUST(!meminfo_will_do((struct meminfo_age){then_ns, SECOND_NS, false}, MEMINFO_ANEW));
    MUST(!meminfo_will_do((struct meminfo_age){0}, MEMINFO_KNOWN));
}

/* Pages have moved beside each: it will do, but for an answer. */
static void reading_answers(void) {
    cache_pages();
    plain_info = (CUresult(*)(size_t *, size_t *))atomic_load(&real_pointers[ID_cuMemGetInfo_v2]);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)info_beside_releases);
    vm_room(test.vm, MEMINFO_ANEW);
    infos_since();
    vm_room(test.vm, MEMINFO_KNOWN);
    MUST(infos_since() == 0);
    vm_room(test.vm, MEMINFO_ANSWER);
    MUST(infos_since() == 2);
    atomic_store(&real_pointers[ID_cuMemGetInfo_v2], (void *)plain_info);
}

static const struct alone cases[] = {
    {"storm", storm, SMALL, 100},
    {"attach-storm", attach_storm, BOASTING, 100},
    {"sleeps", sleeps, SMALL, 100},
    {"sleeps-for-nobody", sleeps_for_nobody, SMALL, 100},
    {"extents", extents_runs, BOASTING, 100},
    {"inner-pages", extents_inner_pages, BOASTING, 0},
    {"survivors", extents_survivors, LARGE, 0},
    {"behind", extents_behind, LARGE, 100},
    {"largest-extent", extents_largest, LARGE, 100},
    {"halved", extents_halved, BOASTING, 100},
    {"roomy", extents_roomy, LARGE, 100},
    {"range-again", extents_range_again, BOASTING, 100},
    {"replaced", extents_replaced, BOASTING, 0},
    {"not-replaced", extents_not_replaced, BOASTING, 0},
    {"order", order, BOASTING, 80},
    {"above-threshold", above_threshold, LARGE, 50},
    {"unfitting", unfitting, BOASTING, 0},
    {"above-reserved", above_reserved, BOASTING, 100},
    {"not-waited", lowvram, BOASTING, 0},
    {"as-the-card", as_the_card, LARGE, 100},
    {"reading-beside", reading_beside, LARGE, 100},
    {"readings-cost", readings_cost, LARGE, 100},
    {"reading-answers", reading_answers, LARGE, 100},
    {"told-beside", told_beside, LARGE, 100},
    {"decay-beside", decay_beside, LARGE, 100},
    {"capture-nears", capture_nears, LARGE, 100},
    {"many-streams", many_streams, LARGE, 100},
    {"context-event", context_event, LARGE, 100},
    {"context-refused", context_refused, LARGE, 100},
    {"decay-by-age", decay_by_age, BOASTING, 100},
    {"decay-of-returned", decay_of_returned, LARGE, 100},
    {"decay-amount", decay_amount, LARGE, 100},
    {"decay-of-pool", decay_of_pool, BOASTING, 100},
    {"decay-unfinished", decay_unfinished, LARGE, 100},
    {"decay-unmaps-at-rest", decay_unmaps_at_rest, LARGE, 100},
    {"decay-leaving", decay_leaving, LARGE, 100},
    {"decay-batches", decay_batches, LARGE, 100},
};

const struct alone *alone_find(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        if (!strcmp(cases[i].name, name))
            return &cases[i];
    return NULL;
}
