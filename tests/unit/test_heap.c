/* test_heap.c: the shadow heap, one promise of heap.h after the other: what each event does to the
 * figures, each event that must be refused, memory running out, and sizes beyond a few runs. */
#include "unit.h"

#include "heap/heap.h"

#include <stdlib.h>
#include <sys/mman.h>

#define BASE    UINT64_C(0x7f0000000000)
#define SEGMENT (20 * MIB)

static struct {
    int mappings_left; /* still allowed; -1: any number */
    size_t bytes;      /* mapped and not unmapped */
} memory = {.mappings_left = -1};

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (memory.mappings_left == 0)
        return MAP_FAILED;
    if (memory.mappings_left > 0)
        memory.mappings_left--;
    memory.bytes += bytes;
    return __real_mmap(address, bytes, protection, flags, file, offset);
}

int __wrap_munmap(void *address, size_t bytes) {
    memory.bytes -= bytes;
    return __real_munmap(address, bytes);
}

static int set_up(void **state) {
    memory.mappings_left = -1;
    memory.bytes = 0;
    *state = heap_create();
    return *state ? 0 : -1;
}

/* Also proves that every byte was given back. */
static int tear_down(void **state) {
    memory.mappings_left = -1;
    heap_destroy(*state);
    return memory.bytes == 0 ? 0 : -1;
}

static struct heap_figures figures_of(const struct heap *heap) {
    assert_true(heap_is_valid(heap));
    return *heap_figures(heap);
}

/* An event that must be refused leaves everything as it was. */
#define ASSERT_REFUSED(heap, call)                                                                 \
    do {                                                                                           \
        struct heap_figures before = figures_of(heap);                                             \
        assert_false(call);                                                                        \
        struct heap_figures after = figures_of(heap);                                              \
        assert_memory_equal(&before, &after, sizeof before);                                       \
    } while (0)

/* ---- native segments ---- */

static void a_new_heap_is_empty(void **state) {
    struct heap_figures none = {0};
    struct heap_figures figures = figures_of(*state);
    assert_memory_equal(&figures, &none, sizeof none);
    assert_false(heap_contains(*state, BASE, NULL));
    heap_destroy(NULL);
}

static void a_segment_is_one_free_run(void **state) {
    assert_true(heap_segment_add(*state, BASE, SEGMENT, 7));
    struct heap_figures figures = figures_of(*state);
    assert_int_equal(figures.reserved_bytes, SEGMENT);
    assert_int_equal(figures.releasable_bytes, SEGMENT);
    assert_int_equal(figures.idle_bytes, SEGMENT);
    assert_int_equal(figures.inactive_split_bytes, 0);
    assert_int_equal(figures.segments, 1);
    assert_int_equal(figures.free_runs, 1);
}

static void a_block_splits_a_segment(void **state) {
    heap_segment_add(*state, BASE, SEGMENT, 0);
    assert_true(heap_allocate(*state, BASE, 512));
    struct heap_figures figures = figures_of(*state);
    assert_int_equal(figures.allocated_bytes, 512);
    assert_int_equal(figures.active_bytes, 512);
    assert_int_equal(figures.inactive_split_bytes, SEGMENT - 512);
    assert_int_equal(figures.releasable_bytes, 0);
    assert_int_equal(figures.idle_bytes, 18 * MIB);
    assert_int_equal(figures.blocks, 1);
}

static void neighbours_join_when_freed(void **state) {
    struct heap_block block = {0};
    heap_segment_add(*state, BASE, SEGMENT, 0);
    for (uint64_t i = 0; i < 3; i++)
        assert_true(heap_allocate(*state, BASE + i * MIB, MIB));
    assert_true(heap_free(*state, BASE, &block));
    assert_int_equal(block.bytes, MIB);
    assert_true(heap_free(*state, BASE + 2 * MIB, NULL));
    assert_int_equal(figures_of(*state).free_runs, 2);
    assert_true(heap_free(*state, BASE + MIB, NULL));
    assert_int_equal(figures_of(*state).free_runs, 1);
    assert_int_equal(figures_of(*state).releasable_bytes, SEGMENT);
}

static void a_pending_block_is_active_but_not_allocated(void **state) {
    struct heap_block block = {0};
    heap_segment_add(*state, BASE, SEGMENT, 0);
    heap_allocate(*state, BASE, MIB);
    assert_true(heap_pend(*state, BASE, &block));
    assert_int_equal(block.bytes, MIB);
    struct heap_figures figures = figures_of(*state);
    assert_int_equal(figures.allocated_bytes, 0);
    assert_int_equal(figures.blocks, 0);
    assert_int_equal(figures.active_bytes, MIB);
    assert_int_equal(figures.releasable_bytes, 0);
    assert_true(heap_complete(*state, BASE));
    assert_int_equal(figures_of(*state).releasable_bytes, SEGMENT);
}

static void blocks_that_do_not_fit_are_refused(void **state) {
    struct heap *heap = *state;
    struct heap_block block = {.bytes = 77};
    heap_segment_add(heap, BASE, SEGMENT, 0);
    heap_segment_add(heap, BASE + SEGMENT, SEGMENT, 0);
    heap_allocate(heap, BASE + MIB, MIB);
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE, 0));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE, 2 * MIB));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE, UINT64_MAX));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE + MIB, MIB));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE + MIB + 512, 512));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE + 19 * MIB, 2 * MIB));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE - 512, 512));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE + 2 * SEGMENT, 512));
    ASSERT_REFUSED(heap, heap_free(heap, BASE, &block));
    ASSERT_REFUSED(heap, heap_free(heap, BASE + MIB + 512, &block));
    ASSERT_REFUSED(heap, heap_pend(heap, BASE, &block));
    ASSERT_REFUSED(heap, heap_complete(heap, BASE + MIB));
    heap_pend(heap, BASE + MIB, NULL);
    ASSERT_REFUSED(heap, heap_free(heap, BASE + MIB, &block));
    ASSERT_REFUSED(heap, heap_pend(heap, BASE + MIB, &block));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE + MIB, MIB));
    assert_int_equal(block.bytes, 77);
}

static void segments_that_do_not_fit_are_refused(void **state) {
    struct heap *heap = *state;
    heap_segment_add(heap, BASE, SEGMENT, 0);
    ASSERT_REFUSED(heap, heap_segment_add(heap, BASE + SEGMENT, 0, 0));
    ASSERT_REFUSED(heap, heap_segment_add(heap, BASE, SEGMENT, 0));
    ASSERT_REFUSED(heap, heap_segment_add(heap, BASE - 512, 513, 0));
    ASSERT_REFUSED(heap, heap_segment_add(heap, BASE + SEGMENT - 1, 512, 0));
    ASSERT_REFUSED(heap, heap_segment_add(heap, BASE + MIB, MIB, 0));
    ASSERT_REFUSED(heap, heap_segment_add(heap, BASE - MIB, GIB, 0));
    ASSERT_REFUSED(heap, heap_segment_add(heap, UINT64_MAX - 511, 1024, 0));
    ASSERT_REFUSED(heap, heap_range_add(heap, BASE, SEGMENT, 0));
    ASSERT_REFUSED(heap, heap_range_add(heap, BASE + SEGMENT, 0, 0));
    ASSERT_REFUSED(heap, heap_segment_remove(heap, BASE + MIB, NULL));
    ASSERT_REFUSED(heap, heap_segment_remove(heap, BASE - MIB, NULL));
    assert_true(heap_segment_add(heap, BASE + SEGMENT, SEGMENT, 0));
    assert_true(heap_segment_add(heap, BASE - MIB, MIB, 0));
}

static void contains_knows_the_kind_and_the_borders(void **state) {
    enum heap_kind kind = HEAP_EXPANDABLE;
    heap_segment_add(*state, BASE, MIB, 0);
    heap_range_add(*state, BASE + 2 * MIB, MIB, 0);
    assert_false(heap_contains(*state, BASE - 1, NULL));
    assert_true(heap_contains(*state, BASE, &kind));
    assert_int_equal(kind, HEAP_NATIVE);
    assert_true(heap_contains(*state, BASE + MIB - 1, NULL));
    assert_false(heap_contains(*state, BASE + MIB, &kind));
    assert_int_equal(kind, HEAP_NATIVE);
    assert_true(heap_contains(*state, BASE + 2 * MIB, &kind));
    assert_int_equal(kind, HEAP_EXPANDABLE);
}

static void clear_forgets_everything(void **state) {
    struct heap_figures none = {0};
    heap_segment_add(*state, BASE, SEGMENT, 0);
    heap_segment_add(*state, BASE + SEGMENT, SEGMENT, 0);
    heap_allocate(*state, BASE, MIB);
    heap_segment_remove(*state, BASE + SEGMENT, NULL);
    heap_clear(*state);
    struct heap_figures figures = figures_of(*state);
    assert_memory_equal(&figures, &none, sizeof none);
    assert_false(heap_contains(*state, BASE, NULL));
    assert_false(heap_free(*state, BASE, NULL));
    assert_false(heap_segment_restore(*state, BASE + SEGMENT));
    assert_true(heap_segment_add(*state, BASE, SEGMENT, 0));
}

/* ---- set aside ---- */

static bool note_stream(const struct heap_run *run, void *stream) {
    *(uint64_t *)stream = run->stream;
    return false;
}

static uint64_t first_stream(const struct heap *heap) {
    uint64_t stream = 0;
    heap_walk(heap, note_stream, &stream);
    return stream;
}

static void a_segment_aside_is_not_seen_and_comes_back_whole(void **state) {
    struct heap *heap = *state;
    uint64_t bytes = 0;
    heap_segment_add(heap, BASE, SEGMENT, 3);
    heap_allocate(heap, BASE, MIB);
    heap_allocate(heap, BASE + MIB, MIB);
    heap_pend(heap, BASE + MIB, NULL);
    struct heap_figures before = figures_of(heap);
    assert_true(heap_segment_remove(heap, BASE, &bytes));
    assert_int_equal(bytes, SEGMENT);
    struct heap_figures none = {0};
    struct heap_figures between = figures_of(heap);
    assert_memory_equal(&between, &none, sizeof none);
    assert_false(heap_contains(heap, BASE, NULL));
    assert_false(heap_free(heap, BASE, NULL));
    assert_true(heap_segment_restore(heap, BASE));
    struct heap_figures after = figures_of(heap);
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(heap_free(heap, BASE, NULL));
    assert_true(heap_complete(heap, BASE + MIB));
    assert_int_equal(figures_of(heap).releasable_bytes, SEGMENT);
    assert_int_equal(first_stream(heap), 3);
}

static void restore_is_refused_when_there_is_nothing_or_no_room(void **state) {
    struct heap *heap = *state;
    heap_segment_add(heap, BASE, SEGMENT, 0);
    ASSERT_REFUSED(heap, heap_segment_restore(heap, BASE));
    heap_segment_remove(heap, BASE, NULL);
    ASSERT_REFUSED(heap, heap_segment_restore(heap, BASE + MIB));
    heap_segment_add(heap, BASE + MIB, MIB, 0);
    ASSERT_REFUSED(heap, heap_segment_restore(heap, BASE));
    heap_segment_forget(heap, BASE);
    heap_segment_forget(heap, BASE);
    heap_segment_remove(heap, BASE + MIB, NULL);
    ASSERT_REFUSED(heap, heap_segment_restore(heap, BASE));
}

/* One thread frees, the driver gives the address to another, which frees it again. */
static void of_two_aside_forget_takes_the_older_and_restore_the_newer(void **state) {
    struct heap *heap = *state;
    for (int forget_first = 0; forget_first < 2; forget_first++) {
        heap_segment_add(heap, BASE, MIB, 1);
        heap_segment_remove(heap, BASE, NULL);
        heap_segment_add(heap, BASE, 2 * MIB, 2);
        heap_segment_remove(heap, BASE, NULL);
        if (forget_first)
            heap_segment_forget(heap, BASE);
        assert_true(heap_segment_restore(heap, BASE));
        if (!forget_first)
            heap_segment_forget(heap, BASE);
        assert_int_equal(figures_of(heap).releasable_bytes, 2 * MIB);
        assert_int_equal(first_stream(heap), 2);
        heap_segment_remove(heap, BASE, NULL);
        heap_segment_forget(heap, BASE);
        ASSERT_REFUSED(heap, heap_segment_restore(heap, BASE));
    }
}

/* ---- expandable ---- */

static void mapping_counts_contiguous_stretches(void **state) {
    struct heap *heap = *state;
    heap_range_add(heap, BASE, GIB, 2 * MIB);
    assert_int_equal(figures_of(heap).segments, 0);
    assert_int_equal(figures_of(heap).reserved_bytes, 0);
    assert_true(heap_map(heap, BASE, 2 * MIB));
    assert_true(heap_map(heap, BASE + 4 * MIB, 2 * MIB));
    assert_int_equal(figures_of(heap).segments, 2);
    assert_true(heap_map(heap, BASE + 2 * MIB, 2 * MIB));
    assert_int_equal(figures_of(heap).segments, 1);
    assert_int_equal(figures_of(heap).free_runs, 1);
    assert_true(heap_unmap(heap, BASE + 2 * MIB, 2 * MIB));
    assert_int_equal(figures_of(heap).segments, 2);
    assert_true(heap_unmap(heap, BASE, 2 * MIB));
    assert_true(heap_unmap(heap, BASE + 4 * MIB, 2 * MIB));
    assert_int_equal(figures_of(heap).segments, 0);
    assert_int_equal(figures_of(heap).reserved_bytes, 0);
}

static void maps_that_do_not_fit_are_refused(void **state) {
    struct heap *heap = *state;
    heap_range_add(heap, BASE, 8 * MIB, 2 * MIB);
    heap_segment_add(heap, BASE + 8 * MIB, 2 * MIB, 0);
    heap_map(heap, BASE + 2 * MIB, 4 * MIB);
    heap_allocate(heap, BASE + 2 * MIB, MIB);
    ASSERT_REFUSED(heap, heap_map(heap, BASE, 0));
    ASSERT_REFUSED(heap, heap_map(heap, BASE, 4 * MIB));
    ASSERT_REFUSED(heap, heap_map(heap, BASE + 2 * MIB, 2 * MIB));
    ASSERT_REFUSED(heap, heap_map(heap, BASE + 6 * MIB, 4 * MIB));
    ASSERT_REFUSED(heap, heap_map(heap, BASE + 8 * MIB, 2 * MIB));
    ASSERT_REFUSED(heap, heap_map(heap, BASE + GIB, 2 * MIB));
    ASSERT_REFUSED(heap, heap_unmap(heap, BASE, 2 * MIB));
    ASSERT_REFUSED(heap, heap_unmap(heap, BASE + 2 * MIB, 2 * MIB));
    ASSERT_REFUSED(heap, heap_unmap(heap, BASE + 4 * MIB, 4 * MIB));
    ASSERT_REFUSED(heap, heap_unmap(heap, BASE + 4 * MIB, 0));
    ASSERT_REFUSED(heap, heap_unmap(heap, BASE + 8 * MIB, 2 * MIB));
    ASSERT_REFUSED(heap, heap_allocate(heap, BASE, MIB));
}

/* The grid begins where the range begins, which is not where 2 MiB pages of the address do. */
static void releasable_pages_follow_the_grid_of_the_range(void **state) {
    struct heap *heap = *state;
    uint64_t begin = BASE + MIB;
    heap_range_add(heap, begin, GIB, 0);
    assert_true(heap_map(heap, begin, 20 * MIB));
    assert_true(heap_map(heap, begin + 20 * MIB, 20 * MIB));
    assert_int_equal(figures_of(heap).releasable_bytes, 40 * MIB);
    assert_int_equal(figures_of(heap).idle_bytes, 38 * MIB);
    assert_int_equal(figures_of(heap).inactive_split_bytes, 0);
    heap_allocate(heap, begin, 512);
    assert_int_equal(figures_of(heap).releasable_bytes, 20 * MIB);
    assert_int_equal(figures_of(heap).idle_bytes, 38 * MIB);
    heap_allocate(heap, begin + 40 * MIB - 512, 512);
    assert_int_equal(figures_of(heap).releasable_bytes, 0);
    assert_int_equal(figures_of(heap).inactive_split_bytes, 0);
}

/* ---- the walk ---- */

struct collected {
    struct heap_run runs[16];
    size_t count, limit;
};

static bool collect(const struct heap_run *run, void *context) {
    struct collected *collected = context;
    collected->runs[collected->count++] = *run;
    return collected->count < collected->limit;
}

static void walk_goes_in_address_order_until_told_to_stop(void **state) {
    struct heap *heap = *state;
    struct collected all = {.limit = 16};
    struct collected two = {.limit = 2};
    struct collected one = {.limit = 1};
    heap_range_add(heap, BASE + GIB, 8 * MIB, 2 * MIB);
    heap_map(heap, BASE + GIB + 2 * MIB, 4 * MIB);
    heap_allocate(heap, BASE + GIB + 2 * MIB, MIB);
    heap_segment_add(heap, BASE, SEGMENT, 9);
    heap_walk(heap, collect, &all);
    assert_int_equal(all.count, 5);
    assert_int_equal(all.runs[0].address, BASE);
    assert_int_equal(all.runs[0].stream, 9);
    assert_int_equal(all.runs[1].state, HEAP_UNMAPPED);
    assert_int_equal(all.runs[2].state, HEAP_ALLOCATED);
    assert_int_equal(all.runs[3].segment_address, BASE + GIB + 2 * MIB);
    assert_int_equal(all.runs[3].segment_bytes, 4 * MIB);
    assert_int_equal(all.runs[4].segment_bytes, 2 * MIB);
    heap_walk(heap, collect, &two);
    assert_int_equal(two.count, 2);
    heap_walk(heap, collect, &one);
    assert_int_equal(one.count, 1);
}

/* ---- many, and no memory ---- */

static uint64_t block_at(size_t i) {
    return BASE + (i / 40) * SEGMENT + (i % 40) * 512 * KIB;
}

static void many_runs_survive_coming_and_going(void **state) {
    struct heap *heap = *state;
    const size_t count = 20000;
    for (size_t i = 0; i < count / 40; i++)
        assert_true(heap_segment_add(heap, BASE + (count / 40 - 1 - i) * SEGMENT, SEGMENT, 0));
    for (size_t i = 0; i < count; i++)
        assert_true(heap_allocate(heap, block_at(i), 512 * KIB));
    assert_int_equal(figures_of(heap).blocks, count);
    for (size_t i = 0; i < count; i++)
        assert_true(heap_free(heap, block_at(i * 7919 % count), NULL));
    assert_int_equal(figures_of(heap).releasable_bytes, count / 40 * SEGMENT);
    for (size_t i = 0; i < count / 40; i++)
        assert_true(heap_segment_remove(heap, BASE + i * SEGMENT, NULL));
    assert_int_equal(figures_of(heap).reserved_bytes, 0);
}

/* One of many events of a kind, each of which leaves two more runs than before. */
static bool map_apart(struct heap *heap, uint64_t i) {
    return heap_map(heap, BASE + (2 * i + 1) * 2 * MIB, 2 * MIB);
}

static bool unmap_apart(struct heap *heap, uint64_t i) {
    return heap_unmap(heap, BASE + (2 * i + 1) * 2 * MIB, 2 * MIB);
}

static bool allocate_apart(struct heap *heap, uint64_t i) {
    return heap_allocate(heap, BASE + (2 * i + 1) * 2 * MIB, 2 * MIB);
}

/* Sends 2000 events with `allowed` mappings left. Where one is refused, nothing has changed, and
 * the same event succeeds once there is memory. Returns whether one was refused. */
static bool send_with_little_memory(struct heap *heap, bool (*event)(struct heap *, uint64_t),
                                    int allowed) {
    bool refused = false;
    heap_clear(heap);
    assert_true(heap_range_add(heap, BASE, 16 * GIB, 2 * MIB));
    if (event != map_apart)
        assert_true(heap_map(heap, BASE, 16 * GIB));
    memory.mappings_left = allowed;
    for (uint64_t i = 0; i < 2000; i++) {
        struct heap_figures before = *heap_figures(heap);
        if (event(heap, i))
            continue;
        struct heap_figures after = figures_of(heap);
        assert_memory_equal(&before, &after, sizeof before);
        refused = true;
        memory.mappings_left = -1;
        assert_true(event(heap, i));
    }
    assert_true(heap_is_valid(heap));
    memory.mappings_left = -1;
    return refused;
}

/* 4001 runs need more tables and more chunks of nodes. */
static void out_of_memory_changes_nothing(void **state) {
    bool (*const events[])(struct heap *, uint64_t) = {map_apart, unmap_apart, allocate_apart};
    for (size_t kind = 0; kind < 3; kind++) {
        for (int allowed = 0; allowed < 5; allowed++)
            assert_true(send_with_little_memory(*state, events[kind], allowed));
        assert_false(send_with_little_memory(*state, events[kind], 8));
    }
}

static void adding_segments_without_memory_is_refused(void **state) {
    struct heap *heap = *state;
    /* The first needs memory for the hash, runs, segments and the directory. */
    for (int allowed = 0; allowed < 4; allowed++) {
        heap_clear(heap);
        memory.mappings_left = allowed;
        ASSERT_REFUSED(heap, heap_segment_add(heap, BASE, SEGMENT, 0));
    }
    heap_clear(heap);
    memory.mappings_left = 4;
    assert_true(heap_segment_add(heap, BASE, SEGMENT, 0));
    assert_int_equal(memory.mappings_left, 0);
    uint64_t i = 1;
    while (heap_segment_add(heap, BASE + i * SEGMENT, SEGMENT, 0))
        i++;
    assert_true(i > 100);
    assert_int_equal(figures_of(heap).segments, i);
    memory.mappings_left = 0;
    assert_null(heap_create());
}

static void restore_without_memory_keeps_the_segment_aside(void **state) {
    struct heap *heap = *state;
    for (uint64_t segment = 0; segment < 2; segment++) {
        heap_segment_add(heap, BASE + segment * SEGMENT, SEGMENT, 0);
        for (uint64_t i = 0; i < 400; i++)
            heap_allocate(heap, BASE + segment * SEGMENT + i * 512, 512);
        if (segment == 0)
            heap_segment_remove(heap, BASE, NULL);
    }
    memory.mappings_left = 0;
    ASSERT_REFUSED(heap, heap_segment_restore(heap, BASE));
    memory.mappings_left = -1;
    assert_true(heap_segment_restore(heap, BASE));
    assert_int_equal(figures_of(heap).blocks, 800);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_new_heap_is_empty),
        TEST(a_segment_is_one_free_run),
        TEST(a_block_splits_a_segment),
        TEST(neighbours_join_when_freed),
        TEST(a_pending_block_is_active_but_not_allocated),
        TEST(blocks_that_do_not_fit_are_refused),
        TEST(segments_that_do_not_fit_are_refused),
        TEST(contains_knows_the_kind_and_the_borders),
        TEST(clear_forgets_everything),
        TEST(a_segment_aside_is_not_seen_and_comes_back_whole),
        TEST(restore_is_refused_when_there_is_nothing_or_no_room),
        TEST(of_two_aside_forget_takes_the_older_and_restore_the_newer),
        TEST(mapping_counts_contiguous_stretches),
        TEST(maps_that_do_not_fit_are_refused),
        TEST(releasable_pages_follow_the_grid_of_the_range),
        TEST(walk_goes_in_address_order_until_told_to_stop),
        TEST(many_runs_survive_coming_and_going),
        TEST(out_of_memory_changes_nothing),
        TEST(adding_segments_without_memory_is_refused),
        TEST(restore_without_memory_keeps_the_segment_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
