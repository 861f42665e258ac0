/* test_derived.c: what is computed from a refusal, against values worked out by hand. */
#include "unit.h"

#include "read/derived.h"

#include <math.h>

static void assert_is(struct derived figure, double should) {
    assert_true(figure.known);
    if (!(fabs(figure.value - should) <= 1e-9)) /* also for what is not a number */
        fail_msg("%.12f is not %.12f", figure.value, should);
}

static struct vramgc_refusal refusal_of(uint64_t request, uint64_t holes, uint64_t hole_bytes,
                                        uint64_t largest) {
    return (struct vramgc_refusal){.request_bytes = request,
                                   .holes = holes,
                                   .hole_bytes = hole_bytes,
                                   .largest_hole_bytes = largest};
}

static void external_is_what_is_not_in_the_largest_hole(void **state) {
    struct vramgc_refusal one = refusal_of(9 * MIB, 1, 7 * MIB, 7 * MIB);
    struct vramgc_refusal four = refusal_of(9 * MIB, 4, 10 * MIB, 5 * MIB);
    (void)state;
    assert_is(external_fragmentation(&one), 0);
    assert_is(external_fragmentation(&four), 0.5);
}

static void index_tells_lack_from_fragmentation(void **state) {
    struct vramgc_refusal small = refusal_of(2 * MIB, 10, 10 * MIB, MIB);
    struct vramgc_refusal large = refusal_of(10 * MIB, 10, 10 * MIB, MIB);
    struct vramgc_refusal one = refusal_of(2 * MIB, 1, MIB, MIB);
    (void)state;
    assert_is(fragmentation_index(&small), 0.4); /* 1 - (1 + 10/2) / 10 */
    assert_is(fragmentation_index(&large), 0.8); /* 1 - (1 + 10/10) / 10 */
    assert_is(fragmentation_index(&one), 0);     /* not below */
}

static void what_fits_has_no_index(void **state) {
    struct vramgc_refusal fits = refusal_of(MIB, 10, 10 * MIB, MIB);
    struct vramgc_refusal just_not = refusal_of(MIB + 1, 10, 10 * MIB, MIB);
    (void)state;
    assert_false(fragmentation_index(&fits).known);
    assert_true(fragmentation_index(&just_not).known);
}

static void without_holes_nothing_is_known(void **state) {
    struct vramgc_refusal none = refusal_of(MIB, 0, 0, 0);
    struct vramgc_refusal damaged = refusal_of(0, 0, MIB, 2 * MIB);
    (void)state;
    assert_false(fragmentation_index(&none).known);
    assert_false(external_fragmentation(&none).known);
    assert_false(fragmentation_index(&damaged).known);
    assert_false(external_fragmentation(&damaged).known);
}

/* In mode compact what is reserved is only addresses: fewer than the pages held, or more. */
static void compact_holds_pages_not_addresses(void **state) {
    static struct vramgc_device device;
    struct vramgc_device_stats *s = &device.stats;
    (void)state;
    s->held_bytes.peak = s->page_bytes.peak = 78 * MIB;
    s->live_bytes.peak = 40 * MIB;
    s->reserved_bytes.peak = 40 * MIB;
    assert_is(derived_figure(DERIVED_held_over_live_peak, &device), 1.95);
    s->reserved_bytes.peak = 400 * MIB;
    assert_is(derived_figure(DERIVED_held_over_live_peak, &device), 1.95);
}

/* The card was read when less was held: what others have is of that moment. */
static void others_are_those_of_the_reading(void **state) {
    static struct vramgc_device device;
    struct vramgc_device_stats *s = &device.stats;
    (void)state;
    device.total_bytes = 1000 * MIB;
    s->held_bytes.current = s->held_bytes.peak = 600 * MIB;
    s->used_bytes.current = s->used_bytes.peak = 350 * MIB;
    s->others_bytes.current = 256 * MIB;
    assert_int_equal(division_at_end(&device).others_bytes, 256 * MIB);
    assert_int_equal(division_at_end(&device).free_bytes, 144 * MIB);
    assert_int_equal(division_at_peak(&device).others_bytes, 256 * MIB);
    /* The highest sample is of before the first reading: it knows of no others. */
    device.sample_count = 1;
    device.samples[0].held_bytes = 300 * MIB;
    assert_int_equal(division_at_peak(&device).others_bytes, 256 * MIB);
    device.samples[0].others_bytes = 300 * MIB;
    assert_int_equal(division_at_peak(&device).others_bytes, 300 * MIB);
}

/* In a short run pages move at each reading: then what was in use tells, or nothing. */
static void others_are_what_is_in_use_beside(void **state) {
    static struct vramgc_device device;
    struct vramgc_device_stats *s = &device.rest.stats;
    (void)state;
    device.total_bytes = 1000 * MIB;
    device.rest.time_ns = device.sample_count = 1;
    s->held_bytes.current = s->held_bytes.peak = 600 * MIB;
    s->used_bytes.current = s->used_bytes.peak = 256 * MIB; /* read before the program had any */
    device.stats = *s;
    assert_false(division_at_rest(&device).known);
    assert_false(division_at_peak(&device).known);
    s->used_bytes.current = 1000 * MIB;
    assert_int_equal(division_at_rest(&device).others_bytes, 400 * MIB);
    device.samples[0].held_bytes = 500 * MIB;
    device.samples[0].used_bytes = 900 * MIB;
    assert_int_equal(division_at_peak(&device).others_bytes, 400 * MIB);
    assert_int_equal(division_at_peak(&device).free_bytes, 0);
}

/* A program that rested before the first reading: what others had then is what they had later. */
static void a_later_reading_serves(void **state) {
    static struct vramgc_device device;
    (void)state;
    device.total_bytes = 1000 * MIB;
    device.rest.time_ns = 1;
    device.rest.stats.held_bytes = (struct vramgc_gauge){600 * MIB, 600 * MIB};
    assert_false(division_at_rest(&device).known);
    device.stats.used_bytes = (struct vramgc_gauge){300 * MIB, 300 * MIB};
    device.stats.others_bytes = (struct vramgc_gauge){250 * MIB, 250 * MIB};
    assert_int_equal(division_at_rest(&device).others_bytes, 250 * MIB);
    assert_int_equal(division_at_rest(&device).free_bytes, 150 * MIB);
}

/* Python's end frees one tensor after another: what is held beside the few that are left is not of
 * the work. A program that took memory after its last rest did work. */
/* Before the first reading a sample says 0. */
static void the_least_of_others_is_of_a_reading(void **state) {
    static struct vramgc_device device = {.sample_count = 3};
    (void)state;
    assert_int_equal(others_least(&device), 0);
    device.samples[1].others_bytes = 9 * MIB;
    device.samples[2].others_bytes = 4 * MIB;
    assert_int_equal(others_least(&device), 4 * MIB);
    device.samples[2].others_bytes = 0;
    assert_int_equal(others_least(&device), 9 * MIB);
    device.stats.used_bytes.current = 12 * MIB; /* no reading told of others */
    device.stats.held_bytes.current = 7 * MIB;
    assert_int_equal(others_least(&device), 5 * MIB);
}

static void averages_are_of_the_work(void **state) {
    static struct vramgc_device device;
    struct vramgc_device_stats *rest = &device.rest.stats, *end = &device.stats;
    (void)state;
    rest->block_allocs = rest->idle_bytes.peak = 1;
    rest->held_sum_kib = rest->live_sum_kib = 4;
    rest->held_over_live_sum = 2000;
    rest->held_over_live_events = 2;
    *end = *rest;
    end->held_sum_kib = 12;
    end->held_over_live_sum = 9000;
    end->idle_bytes.peak = 7;
    assert_is(derived_figure(DERIVED_held_over_live_weighted, &device), 3);
    device.rest.time_ns = 1;
    assert_is(derived_figure(DERIVED_held_over_live_weighted, &device), 1);
    assert_is(derived_figure(DERIVED_held_over_live_mean, &device), 1);
    assert_int_equal(last_moment_of(&device, false).stats->idle_bytes.peak, 1);
    end->block_allocs++;
    assert_is(derived_figure(DERIVED_held_over_live_weighted, &device), 3);
    assert_int_equal(last_moment_of(&device, false).stats->idle_bytes.peak, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(external_is_what_is_not_in_the_largest_hole),
        cmocka_unit_test(index_tells_lack_from_fragmentation),
        cmocka_unit_test(what_fits_has_no_index),
        cmocka_unit_test(without_holes_nothing_is_known),
        cmocka_unit_test(compact_holds_pages_not_addresses),
        cmocka_unit_test(others_are_those_of_the_reading),
        cmocka_unit_test(others_are_what_is_in_use_beside),
        cmocka_unit_test(a_later_reading_serves),
        cmocka_unit_test(the_least_of_others_is_of_a_reading),
        cmocka_unit_test(averages_are_of_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
