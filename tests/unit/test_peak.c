/* test_peak.c: when the peak of live memory is told as that of a short time. */
#include "unit.h"

#include "judge/who.h"

#include <string.h>

enum { STEP_NS = 100000000, POINTS = 64 };

static struct vramgc_device device;

/* So much live at all times. */
static void fill(uint64_t bytes) {
    memset(&device, 0, sizeof device);
    device.sample_count = POINTS;
    for (uint64_t i = 0; i < POINTS; i++)
        device.samples[i] =
            (struct vramgc_sample){.time_ns = i * STEP_NS, .allocated_bytes = bytes};
}

static void raise(uint64_t from, uint64_t count, uint64_t bytes) {
    for (uint64_t i = from; i < from + count; i++)
        device.samples[i].allocated_bytes = bytes;
}

static struct short_peak look(void) {
    return short_peak_of(&device, (uint64_t)POINTS * STEP_NS);
}

static void a_short_load_stands_alone(void **state) {
    (void)state;
    fill(18 * GIB);
    raise(30, 8, 19 * GIB);
    raise(33, 1, 20 * GIB);
    struct short_peak peak = look();
    assert_true(peak.stands_alone);
    assert_int_equal(peak.time_ns, (uint64_t)33 * STEP_NS);
    assert_int_equal(peak.live_bytes, 20 * GIB);
    assert_int_equal(peak.else_bytes, 18 * GIB);
}

/* The machine was busy, and a point stands for a long time. */
static void a_point_counts_until_the_next(void **state) {
    (void)state;
    fill(18 * GIB);
    raise(33, 1, 20 * GIB);
    for (uint64_t i = 24; i < 33; i++)
        device.samples[i].time_ns = 24 * (uint64_t)STEP_NS;
    device.samples[32].allocated_bytes = 19 * GIB;
    struct short_peak peak = look();
    assert_true(peak.stands_alone);
    assert_int_equal(peak.else_bytes, 18 * GIB);
}

/* As until an out-of-memory, and no longer as before the run went on. */
static void a_climb_to_the_end_does_not(void **state) {
    (void)state;
    fill(12 * GIB);
    for (uint64_t i = 32; i < POINTS; i++)
        device.samples[i].allocated_bytes = 12 * GIB + (i - 31) * GIB / 4;
    assert_false(look().stands_alone);
    raise(48, POINTS - 48, 12 * GIB);
    raise(47, 1, 20 * GIB);
    assert_true(look().stands_alone);
    fill(18 * GIB);
    raise(62, 2, 20 * GIB);
    assert_true(look().stands_alone);
}

static void what_comes_again_does_not(void **state) {
    (void)state;
    fill(18 * GIB);
    raise(10, 2, 20 * GIB);
    raise(50, 2, 20 * GIB);
    assert_false(look().stands_alone);
}

static void what_lasts_does_not(void **state) {
    (void)state;
    fill(18 * GIB);
    raise(20, 20, 20 * GIB);
    assert_false(look().stands_alone);
}

static void little_more_is_not_worth_a_word(void **state) {
    (void)state;
    fill(18 * GIB);
    raise(30, 2, 19 * GIB);
    assert_false(look().stands_alone); /* less than a sixteenth */
    fill(2 * GIB);
    raise(30, 2, 2 * GIB + 500 * MIB);
    assert_false(look().stands_alone);
}

/* A model is loaded, then there is one job. */
static void the_only_job_does_not(void **state) {
    (void)state;
    fill(2 * GIB);
    raise(60, 4, 6 * GIB);
    assert_false(look().stands_alone);
}

static void a_short_run_tells_nothing(void **state) {
    (void)state;
    fill(18 * GIB);
    raise(7, 1, 20 * GIB);
    device.sample_count = 15;
    assert_false(short_peak_of(&device, 15 * (uint64_t)STEP_NS).stands_alone);
    device.sample_count = 0;
    assert_false(short_peak_of(&device, 0).stands_alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_load_stands_alone),
        cmocka_unit_test(a_climb_to_the_end_does_not),
        cmocka_unit_test(a_point_counts_until_the_next),
        cmocka_unit_test(what_comes_again_does_not),
        cmocka_unit_test(what_lasts_does_not),
        cmocka_unit_test(little_more_is_not_worth_a_word),
        cmocka_unit_test(the_only_job_does_not),
        cmocka_unit_test(a_short_run_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
