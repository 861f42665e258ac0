/* threads.c: the page engine under many threads, or one alone (alone.c), on the small driver of
 * fake_driver.c. The device has the pages that the threads need at most and two more: a block that
 * is refused is an error. usage: threads SECONDS [blocks | large | lowvram | captures | attachments
 * | large-attachments | steps | streams | a case of alone.c] [whole: its driver tells of the whole
 * context]
 */
#include "threads.h"

#include "../seed.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORKERS = 3,
    SEGMENTS = 12,
    BOAST = 100, /* else no extent would be small enough a part of that */
    THREADS = WORKERS + 2,
    /* one for what lies behind a block, two for what is just being mapped and unmapped */
    CAPACITY = WORKERS * (SEGMENT_PAGES + 1) + 2
};

struct test test;

/* The GPU works on a live block. */
void work_on(uint64_t address, size_t count) {
    size_t devices = atomic_load(&test.devices);
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
    seed = (unsigned)seed_from((uintptr_t)argument);
    for (size_t i = 0; i < ARRAY_LENGTH(segments); i++)
        MUST((segments[i] = vm_reserve(test.vm, test.segment_pages * PAGE_BYTES, stream)) != 0);
    while (!atomic_load(&test.stop)) {
        uint64_t *segment = &segments[below((unsigned)ARRAY_LENGTH(segments))];
        size_t first = below((unsigned)test.segment_pages),
               count = 1 + below((unsigned)(test.segment_pages - first));
        uint64_t address = *segment + first * PAGE_BYTES;
        MUST(vm_commit(test.vm, address, count * PAGE_BYTES, false));
        work_on(address, count);
        vm_mark_idle(test.vm, address, count * PAGE_BYTES);
        if (below(50))
            continue;
        MUST(vm_unreserve(test.vm, *segment));
        *segment = vm_reserve(test.vm, test.segment_pages * PAGE_BYTES, stream);
        MUST(*segment);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(segments); i++)
        MUST(vm_unreserve(test.vm, segments[i]));
    return NULL;
}

/* Each thread may have asked for an extent that is about to be refused, or still count one that has
 * just gone. */
static size_t most_pages(void) {
    size_t extent = test.segment_pages == LARGE_SEGMENT_PAGES ? LARGEST_EXTENT : 1;
    return fake.capacity + THREADS * extent;
}

/* Whatever policy may say. */
static struct decay_limits any_limits(void) {
    return (struct decay_limits){
        .kept_ns = below(2) ? 0 : below(2000000),
        .kept_bytes = below(2) ? UINT64_MAX : below(20) * PAGE_BYTES,
        .returned_ns = below(2) ? 0 : below(2000000),
    };
}

/* As vramgc's own thread does, at all moments; and as a rescue. */
static void *giver(void *argument) {
    seed = (unsigned)seed_from((uintptr_t)argument);
    while (!atomic_load(&test.stop)) {
        struct decay_limits limits = any_limits();
        unsigned how = below(4);
        if (how < 2)
            vm_decay(test.vm, &limits, clock_ns());
        else if (how < 3)
            vm_reclaim(test.vm, UINT64_MAX, VM_POLL);
        else
            vm_reclaim(test.vm, 4 * PAGE_BYTES, VM_WAIT);
        struct vm_figures figures = vm_figures(test.vm);
        MUST(figures.idle_bytes <= figures.mapped_bytes);
        MUST(figures.returned_bytes <= figures.idle_bytes);
        MUST(figures.physical_bytes <= most_pages() * PAGE_BYTES);
        dawdle();
    }
    return NULL;
}

/* A range in which parts are attached and detached, and blocks reach over several of them. What it
 * leaves behind at its end goes some time, and its addresses with it. */
static void *attacher(void *argument) {
    enum { PARTS = 4, PART_PAGES = SEGMENT_PAGES / PARTS };
    const uint64_t part_bytes = PART_PAGES * PAGE_BYTES;
    bool attached[2 * PARTS] = {false};
    CUdeviceptr range;
    seed = (unsigned)seed_from((uintptr_t)argument);
    fake_reserve(&range, 2 * PARTS * part_bytes, 0, 0, 0);
    MUST(vm_range_add(test.vm, range, 2 * PARTS * part_bytes, below(2)));
    vm_stream_add(test.vm, 100 + (uint64_t)(uintptr_t)argument);
    while (!atomic_load(&test.stop)) {
        unsigned first = below(PARTS), count = 1 + below(PARTS);
        uint64_t address = range + first * part_bytes, bytes = count * part_bytes;
        for (unsigned i = first; i < first + count; i++)
            if (!attached[i])
                MUST(attached[i] = vm_attach(test.vm, range + i * part_bytes, part_bytes));
        MUST(!vm_attach(test.vm, address, bytes) &&
             vm_owns(test.vm, address, &(uint64_t){0}, &(uint64_t){0}));
        if (below(2))
            vm_mapped(test.vm, address, bytes);
        MUST(vm_commit(test.vm, address, bytes, false));
        work_on(address, count * PART_PAGES);
        vm_mark_idle(test.vm, address, bytes);
        unsigned i = below(2 * PARTS);
        if (!attached[i] || below(3))
            continue;
        MUST(vm_detach(test.vm, range + i * part_bytes, part_bytes));
        attached[i] = false;
        MUST(!vm_detach(test.vm, range + i * part_bytes, part_bytes));
    }
    for (unsigned i = 0; i < 2 * PARTS; i++)
        MUST(!attached[i] || (vm_range_end(test.vm, range) != VM_RANGE_ENDED &&
                              vm_detach(test.vm, range + i * part_bytes, part_bytes)));
    MUST(vm_range_end(test.vm, range) == VM_RANGE_ENDED &&
         !vm_owns(test.vm, range, &(uint64_t){0}, &(uint64_t){0}));
    range = vm_range_revive(test.vm, 2 * PARTS * part_bytes); /* one of those that ended */
    MUST(!range || vm_range_end(test.vm, range) == VM_RANGE_ENDED);
    return NULL;
}

/* PyTorch's allocator in mode flush: it makes all steps that it needs, maps them where it has room,
 * and unmaps some. What it has made must be there when it is mapped, whatever others give back. */
static void *stepper(void *argument) {
    enum { STEP_PAGES = 2, STEPS = SEGMENT_PAGES / STEP_PAGES };
    const uint64_t range_bytes = SEGMENT_PAGES * PAGE_BYTES;
    CUdeviceptr range;
    seed = (unsigned)seed_from((uintptr_t)argument);
    fake_reserve(&range, range_bytes, 0, 0, 0);
    MUST(vm_range_add(test.vm, range, range_bytes, true));
    while (!atomic_load(&test.stop)) {
        size_t pages = below(3) ? STEP_PAGES : 1, count = 1 + below(STEPS), made = 0;
        uint64_t bytes = pages * PAGE_BYTES;
        for (; made < count; made++)
            MUST(vm_step_promise(test.vm, bytes) == CUDA_SUCCESS);
        size_t mapped = below(10) ? count : below((unsigned)count);
        for (size_t i = 0; i < mapped; i++)
            MUST(vm_attach(test.vm, range + i * bytes, bytes) &&
                 vm_step_map(test.vm, range + i * bytes, bytes) == CUDA_SUCCESS);
        MUST(!mapped || vm_step_open(test.vm, range, mapped * bytes) == CUDA_SUCCESS);
        work_on(range, mapped * pages);
        for (size_t i = 0; i < mapped; i++)
            MUST(vm_detach(test.vm, range + i * bytes, bytes));
        for (size_t i = 0; i < made; i++)
            vm_step_forgo(test.vm, bytes);
        if (below(20))
            continue;
        MUST(vm_range_end(test.vm, range) == VM_RANGE_ENDED);
        while (!(range = vm_range_revive(test.vm, range_bytes))) {
            fake_reserve(&range, range_bytes, 0, 0, 0);
            if (vm_range_add(test.vm, range, range_bytes, true))
                break;
        }
    }
    MUST(vm_range_end(test.vm, range) == VM_RANGE_ENDED);
    return NULL;
}

/* Other devices are let in while blocks come and go. */
static void *opener(void *argument) {
    enum { OTHERS = 8 };
    seed = (unsigned)seed_from((uintptr_t)argument);
    for (unsigned device = 1; device <= OTHERS; device++) {
        usleep(20000 + below(20000));
        MUST(vm_add_peer(test.vm, device) && vm_add_peer(test.vm, device));
        atomic_fetch_add(&test.devices, 1);
    }
    return giver(argument);
}

/* Streams come and go. */
static void *streamer(void *argument) {
    seed = (unsigned)seed_from((uintptr_t)argument);
    while (!atomic_load(&test.stop)) {
        unsigned i = below(STREAMS);
        if (atomic_exchange(&fake.dead[i], false)) {
            vm_stream_add(test.vm, FIRST_STREAM + i);
        } else {
            vm_stream_gone(test.vm, FIRST_STREAM + i);
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
    seed = (unsigned)seed_from((uintptr_t)argument);
    while (!atomic_load(&test.stop)) {
        atomic_store(&fake.capturing, true);
        vm_capture_begin();
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
    seed = (unsigned)seed_from((uintptr_t)argument);
    uint64_t segment = vm_reserve(test.vm, 4 * PAGE_BYTES, stream);
    while (!atomic_load(&test.stop)) {
        MUST(vm_commit(test.vm, segment, 4 * PAGE_BYTES, false));
        work_on(segment, 4);
        vm_mark_idle(test.vm, segment, 4 * PAGE_BYTES);
    }
    MUST(vm_unreserve(test.vm, segment));
    return NULL;
}

static void run(unsigned seconds, void *(*body)(void *), void *(*other)(void *)) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, body, (void *)(i + 1));
    pthread_create(&threads[WORKERS], NULL, giver, (void *)(uintptr_t)77);
    pthread_create(&threads[WORKERS + 1], NULL, other, (void *)(uintptr_t)99);
    sleep(seconds);
    atomic_store(&test.stop, true);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* At the end the driver has everything back. */
static void check_end(void) {
    vm_reclaim(test.vm, UINT64_MAX, VM_WAIT);
    struct vm_figures figures = vm_figures(test.vm);
    MUST(figures.physical_bytes == 0 && figures.mapped_bytes == 0 && figures.cached_bytes == 0);
    MUST(figures.in_flight_bytes == 0 && figures.reserved_bytes == 0 && fake.pages_out == 0);
    MUST(figures.failed_bytes == 0);
    for (size_t i = 0; i < PLACES; i++)
        MUST(fake.place[i] == 0);
    if (test.segment_pages == LARGE_SEGMENT_PAGES && fake.boast > 1)
        MUST(fake.large > 0);
    printf("threads: %llu mapped, %llu unmapped, %llu waits\n", (unsigned long long)figures.maps,
           (unsigned long long)figures.unmaps, (unsigned long long)figures.waits);
}

int main(int count, char **arguments) {
    unsigned seconds = count > 1 ? (unsigned)atoi(arguments[1]) : 2;
    const char *name = count > 2 ? arguments[2] : "blocks";
    const struct alone *alone = alone_find(name);
    bool captures = !strcmp(name, "captures"), streams = !strcmp(name, "streams");
    bool large_parts = !strcmp(name, "large-attachments");
    bool attachments = large_parts || !strcmp(name, "attachments");
    bool boasts = large_parts || !strcmp(name, "large") || (alone && alone->device == BOASTING);
    bool large = boasts || (alone && alone->device == LARGE);
    atomic_store(&test.devices, 1);
    seed = (unsigned)seed_from(1);
    fake_install(large ? LARGE_CAPACITY : CAPACITY);
    fake.boast = boasts ? BOAST : 1;
    test.segment_pages = large ? LARGE_SEGMENT_PAGES : SEGMENT_PAGES;
    double threshold = alone ? alone->threshold_percent : strcmp(name, "lowvram") ? 100 : 0;
    bool steps = !strcmp(name, "steps");
    CUmemAllocationProp properties = vm_properties(0);
    test.vm =
        steps ? vm_open_steps(0, is_capturing, &properties) : vm_open(0, is_capturing, threshold);
    MUST(test.vm);
    if (count > 3 && !strcmp(arguments[3], "whole")) {
        fake_install_context_event();
        vm_ask_context(test.vm);
    }
    if (alone)
        alone->run();
    else
        run(seconds,
            captures      ? small_worker
            : attachments ? attacher
            : steps       ? stepper
                          : worker,
            captures               ? capturer
            : attachments || steps ? opener
            : streams              ? streamer
                                   : giver);
    check_end();
    return 0;
}
