/* test_card.c: the border of the threshold, and when something has moved. */
#include "unit.h"

#include "card/generation.h"
#include "card/threshold.h"

static void at_the_threshold_is_not_above_it(void **state) {
    (void)state;
    assert_false(card_is_above(80, 100 * GIB, 80 * GIB));
    assert_true(card_is_above(80, 100 * GIB, 80 * GIB + 1));
    assert_false(card_is_above(0, 100 * GIB, 0));
    assert_true(card_is_above(0, 100 * GIB, 1));
    assert_false(card_is_above(100, 100 * GIB, 100 * GIB));
    assert_false(card_is_above(0, 0, GIB)); /* not known */
}

/* Down to there memory goes back, and up to there it is asked for without looking for idle one. */
static void what_is_at_the_threshold_is_not_above_it(void **state) {
    (void)state;
    for (uint64_t mib = 1; mib < 100000; mib += 997)
        for (unsigned percent = 0; percent <= 100; percent++) {
            uint64_t total = mib * MIB, at = card_at_threshold(percent, total);
            assert_true(at <= total);
            assert_false(card_is_above(percent, total, at));
            assert_true(card_is_above(percent, total, at + 1));
        }
}

static void a_change_has_no_number(void **state) {
    struct generation generation = {0};
    (void)state;
    uint64_t before = generation_now(&generation, 0);
    assert_true(generation_same(before, generation_now(&generation, 0)));
    generation_begin(&generation);
    assert_int_equal(generation_now(&generation, 0), 0);
    assert_false(generation_same(0, generation_now(&generation, 0)));
    assert_int_not_equal(generation_now(&generation, 1), 0);
    generation_end(&generation);
    assert_int_not_equal(generation_now(&generation, 0), 0);
    assert_false(generation_same(before, generation_now(&generation, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_threshold_is_not_above_it),
        cmocka_unit_test(what_is_at_the_threshold_is_not_above_it),
        cmocka_unit_test(a_change_has_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
