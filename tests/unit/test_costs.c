/* test_costs.c: what the page engine concludes from a card's costs. */
#include "unit.h"

#include "base/base.h"
#include "vm/costs.h"

#include <string.h>

static void the_row_is_found_by_the_device_s_name(void **state) {
    (void)state;
    assert_string_equal(costs_of("NVIDIA A100-SXM4-80GB")->card, "A100");
    assert_ptr_equal(costs_of("Some other card"), costs_of(NULL));
    assert_string_equal(costs_of(NULL)->card, "A100");
    assert_true(strlen(costs_of(NULL)->source) > 0);
}

/* 64 pages of 193 us each, every 200th part of the time. */
static void dear_memory_is_kept_longer(void **state) {
    struct costs costs = {.create = 193000};
    (void)state;
    assert_int_equal(costs_plan(&costs).cache_ns, 64 * 193000 * 200ULL);
    costs.map = 1000;
    costs.access = 30000;
    costs.unmap = 20000;
    assert_int_equal(costs_plan(&costs).cache_ns, 64 * 193000 * 200ULL);
    assert_int_equal(costs_plan(&costs).retain_ns, 64 * 244000 * 200ULL);
    costs.release = 7000;
    assert_int_equal(costs_plan(&costs).cache_ns, 64 * 200000 * 200ULL);
}

static void within_bounds(void **state) {
    struct costs cheap = {.create = 1}, dear = {.create = 100 * MILLISECOND_NS};
    (void)state;
    assert_int_equal(costs_plan(&cheap).cache_ns, 100 * MILLISECOND_NS);
    assert_int_equal(costs_plan(&dear).cache_ns, 5 * SECOND_NS);
    assert_int_equal(costs_plan(&dear).retain_ns, 5 * SECOND_NS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_row_is_found_by_the_device_s_name),
        cmocka_unit_test(dear_memory_is_kept_longer),
        cmocka_unit_test(within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
