/* test_page_rules.c: the page table's rules, one by one (test_page_table.c has them all at once).
 */
#include "unit.h"

#include "vm/page_table.h"

static struct page_segment *mapped_segment(struct page_table *table, uint64_t address,
                                           size_t count) {
    struct page_segment *segment = page_table_add(table, address, count * PAGE_BYTES, 0);
    page_table_mark_live(table, segment, 0, count);
    for (size_t i = 0; i < count; i++) {
        page_table_claim(&segment->pages[i], 1);
        page_table_mapped(table, &segment->pages[i], i + 1);
    }
    return segment;
}

/* Whatever its age. Every test has room for 4. */
static size_t take(struct page_table *table, enum page_idle list, size_t want, struct page **out) {
    struct victims victims = {.list = list, .want = want, .idle_since_ns = UINT64_MAX};
    return page_table_victims(table, &victims, out, 4);
}

static void nothing_goes_before_the_gpu_has_finished(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 4);
    page_table_mark_idle(&table, segment, 0, 2);
    uint64_t first = table.epoch;
    page_table_mark_idle(&table, segment, 2, 2);
    assert_int_equal(take(&table, IDLE_KEPT, 4, out), 0);
    table.fenced_epoch = first;
    assert_int_equal(take(&table, IDLE_KEPT, 4, out), 2);
    assert_ptr_equal(out[0], &segment->pages[0]);
    assert_ptr_equal(out[1], &segment->pages[1]);
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_KEPT, 1, out), 1);
    assert_ptr_equal(out[0], &segment->pages[2]);
}

static void a_page_used_again_starts_anew(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 2);
    page_table_mark_idle(&table, segment, 0, 2);
    table.fenced_epoch = table.epoch;
    page_table_mark_live(&table, segment, 0, 1);
    page_table_mark_idle(&table, segment, 0, 1);
    assert_int_equal(take(&table, IDLE_KEPT, 2, out), 1);
    assert_ptr_equal(out[0], &segment->pages[1]);
    page_table_unmapped(&table, out[0]);
    assert_true(page_table_is_valid(&table));
}

static void a_block_of_two_is_live_until_both_have_gone(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 1);
    page_table_mark_live(&table, segment, 0, 1);
    page_table_mark_idle(&table, segment, 0, 1);
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_KEPT, 1, out), 0);
    page_table_mark_idle(&table, segment, 0, 1);
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_KEPT, 1, out), 1);
}

static struct page_segment *revive(struct page_table *table, uint64_t bytes, uint64_t stream,
                                   bool in_order) {
    struct revival revival = {bytes, stream, false, in_order};
    return page_table_revive(table, &revival);
}

static struct page_segment *revive_range(struct page_table *table, uint64_t bytes) {
    struct revival revival = {.bytes = bytes, .range = true};
    return page_table_revive(table, &revival);
}

static void a_range_that_ended_comes_back_once_the_gpu_is_past_it(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *range = page_table_add_range(&table, GIB, 4 * PAGE_BYTES, true);
    struct page_segment *pool = page_table_add_range(&table, 2 * GIB, 4 * PAGE_BYTES, false);
    assert_true(page_table_attach(&table, range, 0, 2));
    page_table_mark_live(&table, range, 0, 2);
    page_table_claim(range->pages, 2);
    page_table_mapped(&table, range->pages, 7);
    assert_true(page_table_detach(&table, range, 0, 2));
    page_table_end(&table, range);
    page_table_end(&table, pool);
    assert_null(revive_range(&table, 4 * PAGE_BYTES)); /* the GPU may work on it */
    table.fenced_epoch = table.epoch;
    assert_null(revive_range(&table, 2 * PAGE_BYTES));
    assert_null(revive(&table, 4 * PAGE_BYTES, 0, true)); /* no segment */
    assert_ptr_equal(revive_range(&table, 4 * PAGE_BYTES), range);
    assert_null(revive_range(&table, 4 * PAGE_BYTES)); /* the pool's does not */
    assert_int_equal(table.idle_pages[IDLE_RETURNED], 2);
    assert_true(page_table_attach(&table, range, 0, 2));
    assert_int_equal(table.idle_pages[IDLE_KEPT], 2);
    assert_true(page_table_detach(&table, range, 0, 2));
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_RETURNED, 2, out), 1);
    page_table_unmapped(&table, out[0]);
    assert_ptr_equal(page_table_ended(&table), pool); /* and not the range, which has not ended */
    assert_true(page_table_is_valid(&table));
}

static void for_a_block_the_newest_goes_first(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 4);
    for (size_t i = 0; i < 4; i++) {
        if (i < 3)
            table.fenced_epoch = table.epoch + 1;
        page_table_mark_idle(&table, segment, i, 1);
    }
    struct victims victims = {IDLE_KEPT, 2, .idle_since_ns = UINT64_MAX, .newest_first = true};
    assert_int_equal(page_table_victims(&table, &victims, out, 4), 2);
    assert_ptr_equal(out[0], &segment->pages[2]); /* the GPU may work on the last */
    assert_ptr_equal(out[1], &segment->pages[1]);
    assert_int_equal(page_table_victims(&table, &victims, out, 4), 1);
    assert_ptr_equal(out[0], &segment->pages[0]);
}

static void a_retained_segment_comes_back_with_its_pages(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 2);
    segment->stream = 7;
    page_table_end(&table, segment);
    assert_int_equal(table.reserved_pages, 0);
    assert_int_equal(table.idle_pages[IDLE_RETURNED], 2);
    assert_null(revive(&table, 4 * PAGE_BYTES, 7, true)); /* another size */
    assert_null(revive(&table, 2 * PAGE_BYTES, 8, true)); /* the GPU may work on it */
    assert_null(revive(&table, 2 * PAGE_BYTES, 7, false));
    page_table_stream_gone(&table, 7);
    assert_null(revive(&table, 2 * PAGE_BYTES, 7, true)); /* another stream 7 */
    segment->stream = 7;
    assert_ptr_equal(revive(&table, 2 * PAGE_BYTES, 7, true), segment);
    assert_int_equal(table.reserved_pages, 2);
    assert_int_equal(table.idle_pages[IDLE_KEPT], 2);
    assert_null(revive(&table, 2 * PAGE_BYTES, 7, true));
    page_table_end(&table, segment);
    table.fenced_epoch = table.epoch;
    assert_ptr_equal(revive(&table, 2 * PAGE_BYTES, 8, false), segment);
    page_table_end(&table, segment);
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_KEPT, 2, out), 0);
    assert_int_equal(take(&table, IDLE_RETURNED, 2, out), 2);
    page_table_unmapped(&table, out[0]);
    assert_null(page_table_ended(&table));
    page_table_unmapped(&table, out[1]);
    assert_null(revive(&table, 2 * PAGE_BYTES, 8, true));
    assert_ptr_equal(page_table_ended(&table), segment);
    page_table_remove(&table, segment);
    assert_null(page_table_ended(&table));
    assert_true(page_table_is_valid(&table));
}

/* One segment with extents of the given sizes, idle for ever shorter, and fenced. */
static struct page_segment *extents(struct page_table *table, const size_t *npages, size_t count) {
    struct page_segment *segment = page_table_add(table, GIB, 64 * PAGE_BYTES, 0);
    size_t first = 0;
    for (size_t i = 0; i < count; i++, first += npages[i - 1]) {
        page_table_mark_live(table, segment, first, npages[i]);
        page_table_claim(&segment->pages[first], npages[i]);
        page_table_mapped(table, &segment->pages[first], i + 1);
        page_table_mark_idle(table, segment, first, npages[i]);
    }
    table->fenced_epoch = table->epoch;
    return segment;
}

static void a_large_extent_is_live_while_any_of_it_is(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = extents(&table, (size_t[]){4, 10}, 2);
    assert_int_equal(table.idle_pages[IDLE_KEPT], 14);
    page_table_mark_live(&table, segment, 3, 2); /* the end of one, the begin of the other */
    assert_int_equal(table.idle_pages[IDLE_KEPT], 0);
    page_table_mark_live(&table, segment, 10, 24);
    page_table_mark_idle(&table, segment, 3, 2);
    assert_int_equal(table.idle_pages[IDLE_KEPT], 4);
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_KEPT, 20, out), 1);
    assert_ptr_equal(out[0], &segment->pages[0]);
    page_table_mark_live(&table, segment, 1, 2); /* while it is on its way */
    page_table_unmapped(&table, out[0]);
    assert_int_equal(segment->pages[0].live, 0);
    assert_int_equal(segment->pages[1].live, 1);
    page_table_claim(&segment->pages[0], 4);
    page_table_mapped(&table, &segment->pages[0], 9);
    assert_int_equal(segment->pages[0].used, 2);
    assert_true(page_table_is_valid(&table));
    page_table_mark_idle(&table, segment, 1, 2);
    page_table_mark_idle(&table, segment, 10, 24);
    assert_int_equal(table.idle_pages[IDLE_KEPT], 14);
    assert_true(page_table_is_valid(&table));
}

static void no_more_is_taken_than_must_be(void **state) {
    static const struct {
        size_t npages[4], count, want, expected[4], picked;
    } cases[] = {
        {{1, 10, 1, 1}, 4, 2, {0, 2}, 2}, /* the large one stays */
        {{10, 1}, 2, 1, {1}, 1},          /* though it was idle for longer */
        {{4, 1, 10}, 3, 14, {0, 2}, 2},   /* longest idle first, then what fits */
        {{1, 4, 4}, 3, 4, {1}, 1},        /* one too many is needed: the small one stays */
        {{10, 4, 4}, 3, 2, {1}, 1},       /* the smallest that does */
        {{1, 1, 10}, 3, 3, {2}, 1},       /* nothing smaller makes up for it */
        {{9, 10, 9, 9}, 4, 10, {1}, 1},   /* not two of 9 */
        {{9, 9, 10, 3}, 4, 12, {0, 3}, 2},
        {{6, 6, 7, 4}, 4, 13, {0, 2}, 2},        /* and not 6, 4 and 6 */
        {{1, 4, 1, 1}, 4, 100, {0, 1, 2, 3}, 4}, /* all there is */
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct page_table table = {0};
        struct page *out[4];
        struct page_segment *segment = extents(&table, cases[c].npages, cases[c].count);
        size_t first[4] = {0};
        for (size_t i = 1; i < cases[c].count; i++)
            first[i] = first[i - 1] + cases[c].npages[i - 1];
        assert_int_equal(take(&table, IDLE_KEPT, cases[c].want, out), cases[c].picked);
        for (size_t i = 0; i < cases[c].picked; i++)
            assert_ptr_equal(out[i], &segment->pages[first[cases[c].expected[i]]]);
        assert_true(page_table_is_valid(&table));
    }
}

static void pinned_pages_stay_until_the_segment_ends(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 2);
    page_table_pin(segment, 0, 1);
    page_table_mark_idle(&table, segment, 0, 2);
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_KEPT, 2, out), 1);
    assert_ptr_equal(out[0], &segment->pages[1]);
    page_table_end(&table, segment);
    assert_int_equal(take(&table, IDLE_RETURNED, 2, out), 0);
    table.fenced_epoch = table.epoch;
    assert_int_equal(take(&table, IDLE_RETURNED, 2, out), 1);
    assert_null(page_table_ended(&table));
    page_table_unmapped(&table, &segment->pages[0]);
    page_table_unmapped(&table, &segment->pages[1]);
    assert_ptr_equal(page_table_ended(&table), segment);
    assert_int_equal(table.reserved_pages, 0);
    page_table_remove(&table, segment);
    assert_true(page_table_is_valid(&table));
}

static void what_is_not_attached_is_not_ours(void **state) {
    struct page_table table = {0};
    (void)state;
    struct page_segment *range = page_table_add_range(&table, GIB, 8 * PAGE_BYTES, true);
    assert_true(page_table_attach(&table, range, 2, 2) && page_table_attach(&table, range, 4, 1));
    assert_false(page_table_attach(&table, range, 4, 2));
    assert_int_equal(table.reserved_pages, 3);
    page_table_mark_live(&table, range, 0, 8);
    page_table_pin(range, 0, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(range->pages[i].live, i >= 2 && i < 5);
        assert_int_equal(range->pages[i].pinned, i >= 2 && i < 5);
    }
    page_table_mark_idle(&table, range, 0, 8);
    assert_false(page_table_detach(&table, range, 1, 2));
    assert_true(page_table_detach(&table, range, 3, 2));
    assert_int_equal(table.reserved_pages, 1);
    assert_true(range->pages[2].attached && !range->pages[3].pinned);
    assert_true(page_table_is_valid(&table));
    struct page_segment *quiet = page_table_add_range(&table, 2 * GIB, 8 * PAGE_BYTES, false);
    assert_true(page_table_attach(&table, quiet, 0, 8));
    assert_int_equal(table.reserved_pages, 1);
    assert_int_equal(table.attached_pages, 9);
    assert_true(page_table_is_valid(&table));
}

/* --- what an extent may be --- */

static void each_size_has_its_place(void **state) {
    (void)state;
    assert_int_equal(extent_npages(EXTENT_SIZES - 1), LARGEST_ROOMY);
    for (size_t size = 0; size < EXTENT_SIZES; size++) {
        assert_int_equal(extent_size_index(extent_npages(size)), size);
        assert_true(!size || extent_npages(size) > extent_npages(size - 1));
    }
    for (size_t npages = 1; npages <= LARGEST_ROOMY; npages++) {
        assert_true(extent_within(npages) <= npages);
        assert_true(extent_within(npages) * 10 >= npages * 8); /* 40 of 49 */
    }
    assert_int_equal(extent_within(0), 0);
}

/* Until memory is had for it, or it is given up. */
static void what_was_just_mapped_is_fresh_once(void **state) {
    struct page_table table = {0};
    (void)state;
    struct page_segment *range = page_table_add_range(&table, GIB, 4 * PAGE_BYTES, true);
    page_table_attach(&table, range, 0, 4);
    for (size_t i = 0; i < 4; i++)
        range->pages[i].fresh = true;
    page_table_claim(&range->pages[0], 2);
    page_table_unclaim(&table, &range->pages[0]);
    page_table_detach(&table, range, 2, 1);
    page_table_attach(&table, range, 2, 1);
    const bool expected[] = {false, false, false, true};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(range->pages[i].fresh, expected[i]);
    assert_true(page_table_is_valid(&table));
}

/* --- which list, and since when --- */

static struct page_segment *mapped_range(struct page_table *table, uint64_t address, size_t count,
                                         bool counted) {
    struct page_segment *range = page_table_add_range(table, address, count * PAGE_BYTES, counted);
    page_table_attach(table, range, 0, count);
    page_table_mark_live(table, range, 0, count);
    page_table_claim(&range->pages[0], count);
    page_table_mapped(table, &range->pages[0], 1);
    page_table_mark_idle(table, range, 0, count);
    return range;
}

/* The time is that at which PyTorch gave it up, and again that at which it had it back. */
static void what_pytorch_gives_up_is_retained_until_it_is_attached_again(void **state) {
    struct page_table table = {.now_ns = 5};
    (void)state;
    struct page_segment *range = mapped_range(&table, GIB, 4, true);
    const struct page *extent = &range->pages[0];
    assert_int_equal(extent->idle, IDLE_KEPT);
    assert_int_equal(extent->idle_ns, 5);
    table.now_ns = 7;
    assert_true(page_table_detach(&table, range, 0, 3)); /* all of it goes with a part */
    assert_int_equal(extent->idle, IDLE_RETURNED);
    assert_int_equal(extent->idle_ns, 7);
    assert_true(page_table_attach(&table, range, 1, 2));
    assert_int_equal(extent->idle, IDLE_RETURNED);
    table.now_ns = 9;
    assert_true(page_table_attach(&table, range, 0, 1));
    assert_int_equal(extent->idle, IDLE_KEPT);
    assert_int_equal(extent->idle_ns, 9);
    assert_int_equal(page_table_idle_since_ns(&table, IDLE_KEPT), 9);
    assert_int_equal(page_table_idle_since_ns(&table, IDLE_RETURNED), UINT64_MAX);
    assert_true(page_table_is_valid(&table));
}

/* A pool's range does not count, and is attached as long as the pool lives. */
static void what_a_trimmed_pool_has_idle_is_retained_until_a_block_comes(void **state) {
    struct page_table table = {.now_ns = 5};
    (void)state;
    struct page_segment *range = mapped_range(&table, GIB, 4, true);
    struct page_segment *pool = mapped_range(&table, 2 * GIB, 2, false);
    page_table_return_uncounted(&table);
    assert_int_equal(range->pages[0].idle, IDLE_KEPT);
    assert_int_equal(pool->pages[0].idle, IDLE_RETURNED);
    assert_true(page_table_is_valid(&table));
    page_table_mark_live(&table, pool, 0, 1);
    page_table_mark_idle(&table, pool, 0, 1);
    assert_int_equal(pool->pages[0].idle, IDLE_KEPT);
}

static void only_what_has_been_idle_for_long_enough_is_taken(void **state) {
    struct page_table table = {.now_ns = 5};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 2);
    page_table_mark_idle(&table, segment, 0, 1);
    table.now_ns = 8;
    page_table_mark_idle(&table, segment, 1, 1);
    table.fenced_epoch = table.epoch;
    assert_int_equal(page_table_idle_since_ns(&table, IDLE_KEPT), 5);
    struct victims victims = {.list = IDLE_KEPT, .want = 4, .idle_since_ns = 4};
    assert_int_equal(page_table_victims(&table, &victims, out, 4), 0);
    victims.idle_since_ns = 7;
    assert_int_equal(page_table_victims(&table, &victims, out, 4), 1);
    assert_ptr_equal(out[0], &segment->pages[0]);
    victims.idle_since_ns = 8;
    assert_int_equal(page_table_victims(&table, &victims, out, 4), 1);
}

/* Pages 0, 2 and 1 became idle in this order, and page 3 just now. */
static void where_all_goes_neighbours_go_together(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 4);
    page_table_mark_idle(&table, segment, 0, 1);
    page_table_mark_idle(&table, segment, 2, 1);
    page_table_mark_idle(&table, segment, 1, 1);
    table.fenced_epoch = table.epoch;
    page_table_mark_idle(&table, segment, 3, 1);
    assert_int_equal(take(&table, IDLE_KEPT, SIZE_MAX, out), 3);
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(out[i], &segment->pages[i]);
    assert_true(page_table_is_valid(&table));
}

/* An extent that has not come to its block yet loses its place, and is mapped anew. */
static void what_is_live_and_not_there_yet_is_taken_back(void **state) {
    struct page_table table = {0};
    (void)state;
    struct page_segment *segment = page_table_add(&table, GIB, 4 * PAGE_BYTES, 0);
    page_table_mark_live(&table, segment, 0, 3);
    page_table_claim(segment->pages, 4);
    page_table_mapped(&table, segment->pages, 7);
    page_table_take_victim(&table, segment->pages);
    assert_int_equal(segment->pages[3].state, PAGE_BUSY);
    page_table_unmapped(&table, segment->pages);
    assert_int_equal(table.mapped_pages, 0);
    assert_true(page_table_is_valid(&table));
    page_table_claim(segment->pages, 1);
    page_table_mapped(&table, segment->pages, 8);
    assert_int_equal(segment->pages[0].used, 1);
    page_table_mark_idle(&table, segment, 0, 3);
    assert_int_equal(table.idle_pages[IDLE_KEPT], 1);
    assert_true(page_table_is_valid(&table));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_before_the_gpu_has_finished),
        cmocka_unit_test(a_page_used_again_starts_anew),
        cmocka_unit_test(where_all_goes_neighbours_go_together),
        cmocka_unit_test(what_is_live_and_not_there_yet_is_taken_back),
        cmocka_unit_test(a_block_of_two_is_live_until_both_have_gone),
        cmocka_unit_test(a_retained_segment_comes_back_with_its_pages),
        cmocka_unit_test(a_range_that_ended_comes_back_once_the_gpu_is_past_it),
        cmocka_unit_test(for_a_block_the_newest_goes_first),
        cmocka_unit_test(a_large_extent_is_live_while_any_of_it_is),
        cmocka_unit_test(no_more_is_taken_than_must_be),
        cmocka_unit_test(pinned_pages_stay_until_the_segment_ends),
        cmocka_unit_test(what_is_not_attached_is_not_ours),
        cmocka_unit_test(each_size_has_its_place),
        cmocka_unit_test(what_was_just_mapped_is_fresh_once),
        cmocka_unit_test(what_pytorch_gives_up_is_retained_until_it_is_attached_again),
        cmocka_unit_test(what_a_trimmed_pool_has_idle_is_retained_until_a_block_comes),
        cmocka_unit_test(only_what_has_been_idle_for_long_enough_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
