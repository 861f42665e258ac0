/* test_owners.c: whose live memory is, was at the peak, and grows. */
#include "unit.h"

#include "track/owners.h"

#include <string.h>

static struct {
    struct owners owners;
    struct owners_lists lists;
    uint64_t live_bytes;
} self;

static int begin(void **state) {
    (void)state;
    memset(&self, 0, sizeof self);
    return 0;
}

/* As block.c does it. */
static void take(uint32_t site, uint64_t bytes) {
    owners_take(&self.owners, site + 1, bytes);
    self.live_bytes += bytes;
    owners_note_top(&self.owners, self.live_bytes);
}

static void give(uint32_t site, uint64_t bytes) {
    owners_give(&self.owners, site + 1, bytes);
    self.live_bytes -= bytes;
}

static void assert_entry(uint64_t i, uint32_t site, uint64_t bytes, uint64_t blocks) {
    assert_int_equal(self.lists.sites.list[i].site, site);
    assert_int_equal(self.lists.sites.list[i].bytes, bytes);
    assert_int_equal(self.lists.sites.list[i].blocks, blocks);
}

static void now_is_told_the_largest_first(void **state) {
    (void)state;
    take(3, 5 * MIB);
    take(7, 20 * MIB);
    take(3, 6 * MIB);
    give(7, 20 * MIB);
    take(9, 12 * MIB);
    owners_list_now(&self.owners, self.live_bytes, &self.lists);
    assert_int_equal(self.lists.sites.count, 2);
    assert_int_equal(self.lists.sites.live_bytes, 23 * MIB);
    assert_entry(0, 9, 12 * MIB, 1);
    assert_entry(1, 3, 11 * MIB, 2);
}

static void of_many_the_largest_are_told(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        take(i, ((i * 37) % 100 + 1) * MIB);
    owners_list_now(&self.owners, self.live_bytes, &self.lists);
    assert_int_equal(self.lists.sites.count, VRAMGC_MAX_OWNERS);
    for (uint64_t i = 0; i < VRAMGC_MAX_OWNERS; i++)
        assert_int_equal(self.lists.sites.list[i].bytes, (100 - i) * MIB);
}

static void the_top_is_as_it_was_then(void **state) {
    (void)state;
    take(1, 10 * MIB);
    take(2, 30 * MIB); /* the peak */
    give(2, 30 * MIB);
    take(3, 25 * MIB);
    give(1, 10 * MIB);
    owners_list_top(&self.owners, self.live_bytes, &self.lists);
    assert_int_equal(self.lists.sites.live_bytes, 40 * MIB);
    assert_int_equal(self.lists.sites.count, 2);
    assert_entry(0, 2, 30 * MIB, 1);
    assert_entry(1, 1, 10 * MIB, 1);

    take(1, 5 * MIB); /* lower, and the highest since */
    give(3, 25 * MIB);
    owners_list_top(&self.owners, self.live_bytes, &self.lists);
    assert_int_equal(self.lists.sites.live_bytes, 30 * MIB);
    assert_entry(0, 3, 25 * MIB, 1);
    assert_entry(1, 1, 5 * MIB, 1);

    owners_list_top(&self.owners, self.live_bytes, &self.lists); /* nothing happened since */
    assert_int_equal(self.lists.sites.live_bytes, 5 * MIB);
    assert_int_equal(self.lists.sites.count, 1);
    assert_entry(0, 1, 5 * MIB, 1);
}

static void without_a_name_it_is_nobody_s(void **state) {
    (void)state;
    owners_take(&self.owners, 0, 10 * MIB);
    owners_give(&self.owners, 0, 10 * MIB);
    owners_list_now(&self.owners, 0, &self.lists);
    assert_int_equal(self.lists.sites.count, 0);
}

static void a_small_block_stands_for_others(void **state) {
    (void)state;
    self.live_bytes = 12 * 100 * KIBIBYTE; /* which were not looked at */
    take(1, 100 * KIBIBYTE);
    owners_list_now(&self.owners, self.live_bytes, &self.lists);
    assert_entry(0, 1, NAMES_STEP_BYTES, 1);
    give(1, 100 * KIBIBYTE);
    owners_list_now(&self.owners, self.live_bytes, &self.lists);
    assert_int_equal(self.lists.sites.count, 0);
}

/* As of Forge, which has made a stream and one small tensor. */
static void nobody_has_more_than_there_is(void **state) {
    (void)state;
    take(2, 512);
    owners_list_now(&self.owners, self.live_bytes, &self.lists);
    assert_entry(0, 2, 512, 1);
    owners_list_top(&self.owners, self.live_bytes, &self.lists);
    assert_entry(0, 2, 512, 1);
}

/* One keeps 10 MiB each time, one takes and gives 500, one has loaded 300 at the beginning. */
static void who_keeps_more_each_time_has_grown(void **state) {
    (void)state;
    take(1, 300 * MIB);
    for (uint64_t turn = 0; turn < 40; turn++) {
        take(2, 500 * MIB);
        take(3, 10 * MIB);
        give(2, 500 * MIB);
        owners_note_turns(&self.owners, turn + 1, &self.lists.sites);
    }
    assert_int_equal(self.lists.sites.count, 1);
    assert_entry(0, 3, 80 * MIB, 32);
    assert_int_equal(self.lists.sites.live_bytes, 80 * MIB);
}

static void who_keeps_the_same_has_not_grown(void **state) {
    (void)state;
    for (uint32_t site = 0; site < 4; site++)
        take(site, 100 * MIB);
    for (uint64_t turn = 0; turn < 40; turn++) {
        take(5, 50 * MIB);
        give(5, 50 * MIB);
        owners_note_turns(&self.owners, turn + 1, &self.lists.sites);
    }
    assert_int_equal(self.lists.sites.count, 0);
}

/* Two calls of one site: each has its own, and the site both. */
static void calls_are_told_beside_their_sites(void **state) {
    (void)state;
    const uint32_t one = 5 << NAMES_SITE_BITS | 2, other = 9 << NAMES_SITE_BITS | 2;
    owners_take(&self.owners, one, 10 * MIB);
    owners_take(&self.owners, other, 30 * MIB);
    owners_note_top(&self.owners, 40 * MIB);
    owners_give(&self.owners, one, 10 * MIB);
    owners_list_now(&self.owners, 30 * MIB, &self.lists);
    assert_entry(0, 1, 30 * MIB, 1);
    assert_int_equal(self.lists.calls.count, 1);
    assert_int_equal(self.lists.calls.list[0].site, 8);
    owners_list_top(&self.owners, 30 * MIB, &self.lists);
    assert_entry(0, 1, 40 * MIB, 2);
    assert_int_equal(self.lists.calls.count, 2);
    assert_int_equal(self.lists.calls.list[1].site, 4);
    assert_int_equal(self.lists.calls.list[1].bytes, 10 * MIB);
    owners_reset(&self.owners);
    owners_list_now(&self.owners, 0, &self.lists);
    assert_int_equal(self.lists.sites.count + self.lists.calls.count, 0);
}

static void a_reset_leaves_nothing_live(void **state) {
    (void)state;
    take(1, 10 * MIB);
    owners_reset(&self.owners);
    owners_list_now(&self.owners, 0, &self.lists);
    assert_int_equal(self.lists.sites.count, 0);
    owners_list_top(&self.owners, 0, &self.lists);
    assert_entry(0, 1, 10 * MIB, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(now_is_told_the_largest_first, begin),
        cmocka_unit_test_setup(of_many_the_largest_are_told, begin),
        cmocka_unit_test_setup(the_top_is_as_it_was_then, begin),
        cmocka_unit_test_setup(without_a_name_it_is_nobody_s, begin),
        cmocka_unit_test_setup(a_small_block_stands_for_others, begin),
        cmocka_unit_test_setup(nobody_has_more_than_there_is, begin),
        cmocka_unit_test_setup(who_keeps_more_each_time_has_grown, begin),
        cmocka_unit_test_setup(who_keeps_the_same_has_not_grown, begin),
        cmocka_unit_test_setup(calls_are_told_beside_their_sites, begin),
        cmocka_unit_test_setup(a_reset_leaves_nothing_live, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
