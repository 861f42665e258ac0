/* threads.c: the page engine under many threads, on the small driver of fake_driver.c. The device
 * has the pages that the threads need at most and two more: a block that is refused is an error.
 * usage: threads SECONDS [blocks | frugal | captures | large | grants | ahead | streams | storm |
 * revoked | pieces | small | budget] */
#include "fake_driver.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORKERS = 3,
    SEGMENT_PAGES = 8,
    SEGMENTS = 12,
    LARGE_SEGMENT_PAGES = 160,
    LARGE_CAPACITY = 800,
    BOAST = 100,                           /* else no piece would be small enough a part of that */
    CAPACITY = WORKERS * SEGMENT_PAGES + 2 /* two for what is just being mapped and unmapped */
};

static struct {
    atomic_bool stop;
    size_t segment_pages;
    atomic_size_t devices; /* that have been let in */
    struct pages *pages;
} self;

/* The GPU works on a live block. */
static void work_on(uint64_t address, size_t count) {
    size_t devices = atomic_load(&self.devices);
    for (size_t i = place_of(address); i < place_of(address) + count; i++)
        atomic_fetch_add(&fake.busy[i], 1);
    pthread_mutex_lock(&fake.lock);
    for (size_t i = place_of(address); i < place_of(address) + count; i++)
        MUST(fake.place[i] >= FIRST_HANDLE && fake.open_to[i] >= devices);
    pthread_mutex_unlock(&fake.lock);
    dawdle();
    for (size_t i = place_of(address); i < place_of(address) + count; i++)
        atomic_fetch_sub(&fake.busy[i], 1);
}

/* One allocator each, on its own segments, but memory for one of them at a time. */
static void *worker(void *argument) {
    uint64_t segments[SEGMENTS / WORKERS];
    uint64_t stream = 100 + (uint64_t)(uintptr_t)argument;
    seed = (unsigned)(uintptr_t)argument;
    for (size_t i = 0; i < ARRAY_LENGTH(segments); i++)
        MUST((segments[i] = pages_segment(self.pages, self.segment_pages * PAGE_BYTES, stream)) !=
             0);
    while (!atomic_load(&self.stop)) {
        uint64_t *segment = &segments[below((unsigned)ARRAY_LENGTH(segments))];
        size_t first = below((unsigned)self.segment_pages),
               count = 1 + below((unsigned)(self.segment_pages - first));
        uint64_t address = *segment + first * PAGE_BYTES;
        MUST(pages_use(self.pages, address, count * PAGE_BYTES, false));
        work_on(address, count);
        pages_leave(self.pages, address, count * PAGE_BYTES, below(20) > 0);
        if (below(50))
            continue;
        MUST(pages_end(self.pages, *segment));
        *segment = pages_segment(self.pages, self.segment_pages * PAGE_BYTES, stream);
        MUST(*segment);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(segments); i++)
        MUST(pages_end(self.pages, segments[i]));
    return NULL;
}

/* As vramgc's own thread does, at all moments; and now and then as a rescue. */
static void *giver(void *argument) {
    seed = (unsigned)(uintptr_t)argument;
    struct pages_age age = pages_age(self.pages);
    while (!atomic_load(&self.stop)) {
        unsigned how = below(4);
        if (how == 0) {
            pages_give_back_old(self.pages, UINT64_MAX, age, below(2) ? 200000 : 0);
            age = pages_age(self.pages);
        } else if (how < 3)
            pages_give_back(self.pages, UINT64_MAX);
        else
            pages_give_back_now(self.pages, 4 * PAGE_BYTES);
        struct pages_figures figures = pages_figures(self.pages);
        MUST(figures.idle_bytes <= figures.mapped_bytes);
        MUST(figures.physical_bytes <= (fake.capacity + WORKERS) * PAGE_BYTES);
        dawdle();
    }
    return NULL;
}

/* A range in which parts are granted and revoked, and blocks reach over several of them. What it
 * leaves behind at its end goes some time, and its addresses with it. */
static void *granter(void *argument) {
    enum { GRANTS = 4, GRANT_PAGES = SEGMENT_PAGES / GRANTS };
    const uint64_t grant_bytes = GRANT_PAGES * PAGE_BYTES;
    bool granted[2 * GRANTS] = {false};
    CUdeviceptr range;
    seed = (unsigned)(uintptr_t)argument;
    fake_reserve(&range, 2 * GRANTS * grant_bytes, 0, 0, 0);
    MUST(pages_range(self.pages, range, 2 * GRANTS * grant_bytes, below(2)));
    pages_know_stream(self.pages, 100 + (uint64_t)(uintptr_t)argument);
    while (!atomic_load(&self.stop)) {
        unsigned first = below(GRANTS), count = 1 + below(GRANTS);
        uint64_t address = range + first * grant_bytes, bytes = count * grant_bytes;
        for (unsigned i = first; i < first + count; i++)
            if (!granted[i])
                MUST(granted[i] = pages_grant(self.pages, range + i * grant_bytes, grant_bytes));
        MUST(!pages_grant(self.pages, address, bytes) && pages_own(self.pages, address));
        MUST(pages_use(self.pages, address, bytes, false));
        work_on(address, count * GRANT_PAGES);
        pages_leave(self.pages, address, bytes, below(20) > 0);
        unsigned i = below(2 * GRANTS);
        if (!granted[i] || below(3))
            continue;
        MUST(pages_revoke(self.pages, range + i * grant_bytes, grant_bytes));
        granted[i] = false;
        MUST(!pages_revoke(self.pages, range + i * grant_bytes, grant_bytes));
    }
    for (unsigned i = 0; i < 2 * GRANTS; i++)
        MUST(!granted[i] || (!pages_range_end(self.pages, range) &&
                             pages_revoke(self.pages, range + i * grant_bytes, grant_bytes)));
    MUST(pages_range_end(self.pages, range));
    MUST(!pages_range_end(self.pages, range) && !pages_own(self.pages, range));
    return NULL;
}

/* Other devices are let in while blocks come and go. */
static void *opener(void *argument) {
    enum { OTHERS = 8 };
    seed = (unsigned)(uintptr_t)argument;
    for (unsigned device = 1; device <= OTHERS; device++) {
        usleep(20000 + below(20000));
        MUST(pages_let_in(self.pages, device) && pages_let_in(self.pages, device));
        atomic_fetch_add(&self.devices, 1);
    }
    return giver(argument);
}

/* Streams come and go. */
static void *streamer(void *argument) {
    seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&self.stop)) {
        unsigned i = below(STREAMS);
        if (atomic_exchange(&fake.dead[i], false)) {
            pages_know_stream(self.pages, FIRST_STREAM + i);
        } else {
            pages_stream_gone(self.pages, FIRST_STREAM + i);
            atomic_store(&fake.dead[i], true);
        }
        dawdle();
    }
    return NULL;
}

static bool is_capturing(void) {
    return atomic_load(&fake.capturing);
}

/* Captures begin and end; whoever asks the GPU meanwhile would disturb one. */
static void *capturer(void *argument) {
    seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&self.stop)) {
        atomic_store(&fake.capturing, true);
        pages_capture_begins();
        unsigned before = atomic_load(&fake.asked_during_capture);
        usleep(below(300));
        MUST(atomic_load(&fake.asked_during_capture) == before);
        atomic_store(&fake.capturing, false);
        usleep(below(300));
    }
    return NULL;
}

/* Memory is not short here: while something is captured nobody could wait for the GPU. */
static void *small_worker(void *argument) {
    uint64_t stream = 100 + (uint64_t)(uintptr_t)argument;
    seed = (unsigned)(uintptr_t)argument;
    uint64_t segment = pages_segment(self.pages, 4 * PAGE_BYTES, stream);
    while (!atomic_load(&self.stop)) {
        MUST(pages_use(self.pages, segment, 4 * PAGE_BYTES, false));
        work_on(segment, 4);
        pages_leave(self.pages, segment, 4 * PAGE_BYTES, true);
    }
    MUST(pages_end(self.pages, segment));
    return NULL;
}

static void run(unsigned seconds, void *(*body)(void *), void *(*other)(void *)) {
    pthread_t threads[WORKERS + 2];
    for (size_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, body, (void *)(i + 1));
    pthread_create(&threads[WORKERS], NULL, giver, (void *)(uintptr_t)77);
    pthread_create(&threads[WORKERS + 1], NULL, other, (void *)(uintptr_t)99);
    sleep(seconds);
    atomic_store(&self.stop, true);
    for (size_t i = 0; i < WORKERS + 2; i++)
        pthread_join(threads[i], NULL);
}

/* --- one thread: segments that end and come back --- */

static void end_all(const uint64_t *segments, size_t count) {
    for (size_t i = 0; i < count; i++)
        MUST(pages_end(self.pages, segments[i]) && !pages_end(self.pages, segments[i]));
}

static void use_all(uint64_t *segments, size_t count, size_t pages) {
    for (size_t i = 0; i < count; i++) {
        MUST((segments[i] = pages_segment(self.pages, pages * PAGE_BYTES, 3 + i % 3)) != 0);
        MUST(pages_use(self.pages, segments[i], pages * PAGE_BYTES, false));
        work_on(segments[i], pages);
        pages_leave(self.pages, segments[i], pages * PAGE_BYTES, true);
    }
}

/* A program that empties PyTorch's cache all the time reaches the driver once. What nobody wants
 * goes in the end; more than so many are never parked. */
static void storm(void) {
    enum { OFTEN = 300, MANY = 600, MOST_PARKED = 512, SOME = 20, PAGES = 3 };
    uint64_t segments[MANY];
    fake.capacity = MANY + 2;
    use_all(segments, SOME, PAGES);
    unsigned calls = atomic_load(&fake.calls);
    for (size_t i = 0; i < OFTEN; i++) {
        end_all(segments, SOME);
        MUST(pages_figures(self.pages).reserved_bytes == 0);
        use_all(segments, SOME, PAGES);
        MUST(pages_figures(self.pages).reserved_bytes == SOME * PAGES * PAGE_BYTES);
    }
    MUST(atomic_load(&fake.calls) == calls);
    MUST(pages_figures(self.pages).unparked == OFTEN * SOME);
    end_all(segments, SOME);
    pages_expire(self.pages, 10 * SECOND_NS);
    MUST(pages_figures(self.pages).idle_bytes == SOME * PAGES * PAGE_BYTES);
    pages_expire(self.pages, 20 * SECOND_NS);
    MUST(pages_figures(self.pages).mapped_bytes == 0 && fake.pages_out > 0);
    pages_expire(self.pages, 30 * SECOND_NS); /* from here on it is known how much is kept */
    MUST(fake.pages_out > 0);
    pages_expire(self.pages, 40 * SECOND_NS);
    MUST(fake.pages_out == 0);
    use_all(segments, MANY, 1);
    end_all(segments, MANY);
    MUST(pages_figures(self.pages).mapped_bytes == MOST_PARKED * PAGE_BYTES);
    pages_expire(self.pages, 50 * SECOND_NS);
    MUST(pages_figures(self.pages).kept_bytes == (MANY - MOST_PARKED) * PAGE_BYTES);
    use_all(segments, SOME, PAGES);
    end_all(segments, SOME);
    pages_expire(self.pages, 60 * SECOND_NS); /* what was wanted meanwhile stays */
    MUST(fake.pages_out == MOST_PARKED + SOME * PAGES);
    for (uint64_t second = 70; second < 110; second += 10)
        pages_expire(self.pages, second * SECOND_NS);
    MUST(fake.pages_out == 0);
}

/* --- one thread: addresses that are granted, revoked and granted again --- */

static void grant_and_use(uint64_t range, size_t first, size_t count) {
    uint64_t address = range + first * PAGE_BYTES, bytes = count * PAGE_BYTES;
    MUST(pages_grant(self.pages, address, bytes) && pages_use(self.pages, address, bytes, false));
    work_on(address, count);
    pages_leave(self.pages, address, bytes, true);
}

/* A program that empties the cache of its expandable segments all the time reaches the driver once;
 * pieces of memory lie across what is granted at a time, and ahead of it. What nobody is granted
 * again goes in the end, what has been granted again stays. */
static void revoked(void) {
    enum { PAGES = 128, PART = 10, OFTEN = 300 };
    CUdeviceptr range;
    fake_reserve(&range, PAGES * PAGE_BYTES, 0, 0, 0);
    MUST(pages_range(self.pages, range, PAGES * PAGE_BYTES, true));
    for (size_t first = 0; first + PART <= PAGES; first += PART)
        grant_and_use(range, first, PART);
    MUST(fake.large > 0 && pages_figures(self.pages).calls < PAGES);
    unsigned calls = atomic_load(&fake.calls);
    for (size_t i = 0; i < OFTEN; i++) {
        uint64_t part = range + i % (PAGES / PART) * PART * PAGE_BYTES;
        MUST(pages_revoke(self.pages, part, PART * PAGE_BYTES) && !pages_own(self.pages, part));
        MUST(pages_figures(self.pages).reserved_bytes == (PAGES / PART - 1) * PART * PAGE_BYTES);
        grant_and_use(range, i % (PAGES / PART) * PART, PART);
    }
    MUST(atomic_load(&fake.calls) == calls);
    for (size_t first = PART; first + PART <= PAGES; first += PART)
        MUST(pages_revoke(self.pages, range + first * PAGE_BYTES, PART * PAGE_BYTES));
    uint64_t mapped = pages_figures(self.pages).mapped_bytes;
    MUST(mapped >= (PAGES / PART) * PART * PAGE_BYTES &&
         pages_figures(self.pages).idle_bytes == mapped);
    pages_expire(self.pages, 10 * SECOND_NS);
    MUST(pages_figures(self.pages).mapped_bytes == mapped);
    pages_expire(self.pages, 20 * SECOND_NS);
    mapped = pages_figures(self.pages).mapped_bytes;
    MUST(mapped >= PART * PAGE_BYTES && mapped <= (PART + LARGEST_SPAN) * PAGE_BYTES);
    MUST(pages_use(self.pages, range, PAGE_BYTES, false)); /* two blocks in one piece */
    MUST(pages_use(self.pages, range + PAGE_BYTES, PAGE_BYTES, false));
    pages_leave(self.pages, range + PAGE_BYTES, PAGE_BYTES, true);
    MUST(pages_settle_now(self.pages));
    pages_purge(self.pages, PAGES);
    MUST(fake.place[place_of(range)] >= FIRST_HANDLE);
    pages_leave(self.pages, range, PAGE_BYTES, true);
    MUST(pages_revoke(self.pages, range, PART * PAGE_BYTES));
    MUST(pages_range_end(self.pages, range) && fake.place[place_of(range)] != 0);
    pages_settle_now(self.pages);
    pages_purge(self.pages, PAGES);
    pages_sweep(self.pages);
    MUST(fake.place[place_of(range)] == 0);
}

/* --- one thread: large pieces of memory --- */

/* In a segment a small block that comes to lie where a larger one was holds no more than its own
 * pages: the others can go. Only much larger ones get large pieces. */
static void small_in_large(void) {
    enum { PAGES = 27, MANY = 160 };
    uint64_t segment = pages_segment(self.pages, PAGES * PAGE_BYTES, 5);
    MUST(segment && pages_use(self.pages, segment, PAGES * PAGE_BYTES, false));
    work_on(segment, PAGES);
    pages_leave(self.pages, segment, PAGES * PAGE_BYTES, true);
    MUST(pages_use(self.pages, segment, PAGE_BYTES, false));
    MUST(pages_settle_now(self.pages) && pages_purge(self.pages, PAGES) == PAGES - 1);
    pages_leave(self.pages, segment, PAGE_BYTES, true);
    MUST(pages_end(self.pages, segment));
    MUST(fake.large == 0);
    use_all(&segment, 1, MANY);
    MUST(fake.large > 0 && pages_end(self.pages, segment));
}

/* A block that misses 160 pages costs ten pieces and one call that opens them all, and one call
 * unmaps them. Where memory is short, a small block does not hold a large piece for itself. */
static void pieces(void) {
    enum { PAGES = 160, SPAN = 16, PIECES = PAGES / SPAN, INFO = 1, OPEN = 1, UNMAP = 1 };
    uint64_t segment = pages_segment(self.pages, PAGES * PAGE_BYTES, 5), bytes = PAGES * PAGE_BYTES;
    unsigned calls = atomic_load(&fake.calls);
    MUST(segment && pages_use(self.pages, segment, bytes, false));
    MUST(atomic_load(&fake.calls) == calls + INFO + 2 * PIECES + OPEN);
    work_on(segment, PAGES);
    pages_leave(self.pages, segment, bytes, true);
    MUST(pages_settle_now(self.pages));
    calls = atomic_load(&fake.calls);
    MUST(pages_use(self.pages, segment + 40 * PAGE_BYTES, PAGE_BYTES, false)); /* as it lies */
    MUST(atomic_load(&fake.calls) == calls);
    pages_leave(self.pages, segment + 40 * PAGE_BYTES, PAGE_BYTES, true);
    MUST(pages_settle_now(self.pages));
    self.pages->scarce = true;
    MUST(pages_use(self.pages, segment + 40 * PAGE_BYTES, PAGE_BYTES, false));
    MUST(pages_figures(self.pages).mapped_bytes == (PAGES - SPAN + 1) * PAGE_BYTES);
    MUST(pages_figures(self.pages).idle_bytes == (PAGES - SPAN) * PAGE_BYTES);
    pages_leave(self.pages, segment + 40 * PAGE_BYTES, PAGE_BYTES, true);
    MUST(pages_end(self.pages, segment));
    calls = atomic_load(&fake.calls);
    MUST(pages_settle_now(self.pages) && pages_purge(self.pages, PAGES) == PAGES - SPAN + 1);
    MUST(atomic_load(&fake.calls) == calls + 3 * UNMAP); /* there is a hole on each side */
}

/* Whoever may spend only so much time stops after the first two pages where the driver is slow, and
 * goes on where it is not. */
static void budget(void) {
    enum { PAGES = 160, FIRST = 2 };
    const uint64_t short_ns = 200000, bytes = PAGES * PAGE_BYTES;
    self.pages->scarce = true; /* no large pieces */
    uint64_t segment = pages_segment(self.pages, bytes, 5);
    MUST(segment && pages_use(self.pages, segment, bytes, false));
    pages_leave(self.pages, segment, bytes, true);
    struct pages_age age = pages_age(self.pages);
    pages_settle_later(self.pages, false);
    MUST(pages_settle_now(self.pages));
    fake.slow_us = 1000;
    for (unsigned i = 0; i < 3; i++)
        MUST(pages_give_back_old(self.pages, UINT64_MAX, age, short_ns) == FIRST * PAGE_BYTES);
    fake.slow_us = 0;
    MUST(pages_give_back_old(self.pages, UINT64_MAX, age, 60 * SECOND_NS) ==
         (PAGES - 3 * FIRST) * PAGE_BYTES);
    MUST(pages_end(self.pages, segment));
}

/* At the end the driver has everything back. */
static void check_end(void) {
    pages_give_back_now(self.pages, UINT64_MAX);
    struct pages_figures figures = pages_figures(self.pages);
    MUST(figures.physical_bytes == 0 && figures.mapped_bytes == 0 && figures.kept_bytes == 0);
    MUST(figures.moving_bytes == 0 && figures.reserved_bytes == 0 && fake.pages_out == 0);
    MUST(figures.refused_bytes == 0 && figures.creates == figures.releases);
    for (size_t i = 0; i < PLACES; i++)
        MUST(fake.place[i] == 0);
    if (self.segment_pages == LARGE_SEGMENT_PAGES && !self.pages->scarce)
        MUST(fake.large > 0);
    printf("threads: %llu mapped, %llu unmapped, %llu waits\n", (unsigned long long)figures.maps,
           (unsigned long long)figures.unmaps, (unsigned long long)figures.waits);
}

int main(int count, char **arguments) {
    unsigned seconds = count > 1 ? (unsigned)atoi(arguments[1]) : 2;
    const char *name = count > 2 ? arguments[2] : "blocks";
    bool captures = !strcmp(name, "captures"), ahead = !strcmp(name, "ahead");
    bool grants = ahead || !strcmp(name, "grants");
    atomic_store(&self.devices, 1);
    seed = 1;
    bool boasts = ahead || !strcmp(name, "large") || !strcmp(name, "revoked") ||
                  !strcmp(name, "pieces") || !strcmp(name, "small");
    bool large = boasts || !strcmp(name, "budget");
    fake_install(large ? LARGE_CAPACITY : CAPACITY);
    fake.boast = boasts ? BOAST : 1;
    self.segment_pages = large ? LARGE_SEGMENT_PAGES : SEGMENT_PAGES;
    self.pages = pages_open(0, is_capturing, !strcmp(name, "frugal"));
    MUST(self.pages);
    bool streams = !strcmp(name, "streams");
    if (!strcmp(name, "storm"))
        storm();
    else if (!strcmp(name, "revoked"))
        revoked();
    else if (!strcmp(name, "pieces"))
        pieces();
    else if (!strcmp(name, "small"))
        small_in_large();
    else if (!strcmp(name, "budget"))
        budget();
    else
        run(seconds,
            captures ? small_worker
            : grants ? granter
                     : worker,
            captures  ? capturer
            : grants  ? opener
            : streams ? streamer
                      : giver);
    check_end();
    return 0;
}
