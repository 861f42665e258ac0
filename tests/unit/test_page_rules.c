/* test_page_rules.c: the page table's rules, one by one (test_page_table.c has them all at once).
 */
#include "unit.h"

#include "pages/table.h"

static struct page_segment *mapped_segment(struct page_table *table, uint64_t address,
                                           size_t count) {
    struct page_segment *segment = page_table_add(table, address, count * PAGE_BYTES, 0);
    page_table_use(table, segment, 0, count);
    for (size_t i = 0; i < count; i++) {
        page_table_claim(&segment->pages[i]);
        page_table_mapped(table, &segment->pages[i], i + 1);
    }
    return segment;
}

static void nothing_goes_before_the_gpu_has_finished(void **state) {
    struct page_table table = {0};
    struct page *out[4];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 4);
    page_table_leave(&table, segment, 0, 2);
    uint64_t first = table.tick;
    page_table_leave(&table, segment, 2, 2);
    assert_int_equal(page_table_pick(&table, 4, out), 0);
    table.settled_tick = first;
    assert_int_equal(page_table_pick(&table, 4, out), 2);
    assert_ptr_equal(out[0], &segment->pages[0]);
    assert_ptr_equal(out[1], &segment->pages[1]);
    table.settled_tick = table.tick;
    assert_int_equal(page_table_pick(&table, 1, out), 1);
    assert_ptr_equal(out[0], &segment->pages[2]);
}

static void a_page_used_again_starts_anew(void **state) {
    struct page_table table = {0};
    struct page *out[2];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 2);
    page_table_leave(&table, segment, 0, 2);
    table.settled_tick = table.tick;
    page_table_use(&table, segment, 0, 1);
    page_table_leave(&table, segment, 0, 1);
    assert_int_equal(page_table_pick(&table, 2, out), 1);
    assert_ptr_equal(out[0], &segment->pages[1]);
    page_table_emptied(&table, out[0]);
    assert_true(page_table_is_valid(&table));
}

static void a_block_of_two_is_live_until_both_have_gone(void **state) {
    struct page_table table = {0};
    struct page *out[1];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 1);
    page_table_use(&table, segment, 0, 1);
    page_table_leave(&table, segment, 0, 1);
    table.settled_tick = table.tick;
    assert_int_equal(page_table_pick(&table, 1, out), 0);
    page_table_leave(&table, segment, 0, 1);
    table.settled_tick = table.tick;
    assert_int_equal(page_table_pick(&table, 1, out), 1);
}

static void a_parked_segment_comes_back_with_its_pages(void **state) {
    struct page_table table = {0};
    struct page *out[2];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 2);
    segment->stream = 7;
    page_table_end(&table, segment);
    assert_int_equal(table.reserved_pages, 0);
    assert_int_equal(table.idle_pages, 2);
    assert_null(page_table_unpark(&table, 4 * PAGE_BYTES, 7, true)); /* another size */
    assert_null(page_table_unpark(&table, 2 * PAGE_BYTES, 8, true)); /* the GPU may work on it */
    assert_null(page_table_unpark(&table, 2 * PAGE_BYTES, 7, false));
    page_table_stream_gone(&table, 7);
    assert_null(page_table_unpark(&table, 2 * PAGE_BYTES, 7, true)); /* another stream 7 */
    segment->stream = 7;
    assert_ptr_equal(page_table_unpark(&table, 2 * PAGE_BYTES, 7, true), segment);
    assert_int_equal(table.reserved_pages, 2);
    assert_null(page_table_unpark(&table, 2 * PAGE_BYTES, 7, true));
    page_table_end(&table, segment);
    table.settled_tick = table.tick;
    assert_ptr_equal(page_table_unpark(&table, 2 * PAGE_BYTES, 8, false), segment);
    page_table_end(&table, segment);
    table.settled_tick = table.tick;
    assert_int_equal(page_table_pick(&table, 2, out), 2); /* idle as all are */
    page_table_emptied(&table, out[0]);
    assert_null(page_table_ended(&table));
    page_table_emptied(&table, out[1]);
    assert_null(page_table_unpark(&table, 2 * PAGE_BYTES, 8, true));
    assert_ptr_equal(page_table_ended(&table), segment);
    page_table_remove(&table, segment);
    assert_null(page_table_ended(&table));
    assert_true(page_table_is_valid(&table));
}

static void pinned_pages_stay_until_the_segment_ends(void **state) {
    struct page_table table = {0};
    struct page *out[2];
    (void)state;
    struct page_segment *segment = mapped_segment(&table, GIB, 2);
    page_table_pin(segment, 0, 1);
    page_table_leave(&table, segment, 0, 2);
    table.settled_tick = table.tick;
    assert_int_equal(page_table_pick(&table, 2, out), 1);
    assert_ptr_equal(out[0], &segment->pages[1]);
    page_table_end(&table, segment);
    assert_int_equal(page_table_pick(&table, 2, out), 0);
    table.settled_tick = table.tick;
    assert_int_equal(page_table_pick(&table, 2, out), 1);
    assert_null(page_table_ended(&table));
    page_table_emptied(&table, &segment->pages[0]);
    page_table_emptied(&table, &segment->pages[1]);
    assert_ptr_equal(page_table_ended(&table), segment);
    assert_int_equal(table.reserved_pages, 0);
    page_table_remove(&table, segment);
    assert_true(page_table_is_valid(&table));
}

static void what_is_not_granted_is_not_ours(void **state) {
    struct page_table table = {0};
    (void)state;
    struct page_segment *range = page_table_add_range(&table, GIB, 8 * PAGE_BYTES, true);
    assert_true(page_table_grant(&table, range, 2, 2) && page_table_grant(&table, range, 4, 1));
    assert_false(page_table_grant(&table, range, 4, 2));
    assert_int_equal(table.reserved_pages, 3);
    page_table_use(&table, range, 0, 8);
    page_table_pin(range, 0, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(range->pages[i].live, i >= 2 && i < 5);
        assert_int_equal(range->pages[i].pinned, i >= 2 && i < 5);
    }
    page_table_leave(&table, range, 0, 8);
    assert_false(page_table_revoke(&table, range, 1, 2));
    assert_true(page_table_revoke(&table, range, 3, 2));
    assert_int_equal(table.reserved_pages, 1);
    assert_true(range->pages[2].granted && !range->pages[3].pinned);
    assert_true(page_table_is_valid(&table));
    struct page_segment *quiet = page_table_add_range(&table, 2 * GIB, 8 * PAGE_BYTES, false);
    assert_true(page_table_grant(&table, quiet, 0, 8));
    assert_int_equal(table.reserved_pages, 1);
    assert_true(page_table_is_valid(&table));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_before_the_gpu_has_finished),
        cmocka_unit_test(a_page_used_again_starts_anew),
        cmocka_unit_test(a_block_of_two_is_live_until_both_have_gone),
        cmocka_unit_test(a_parked_segment_comes_back_with_its_pages),
        cmocka_unit_test(pinned_pages_stay_until_the_segment_ends),
        cmocka_unit_test(what_is_not_granted_is_not_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
