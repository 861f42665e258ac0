/* test_timeline.c: the points of a device over time, and the averages: nothing high is lost as they
 * thin out. */
#include "unit.h"

#include "store/store.h"

/* What is held between two looks only is in the timeline all the same: by the peak, or because a
 * later look within the same step, or a point that had to go, had more. */
static void samples_keep_the_highest(void **state) {
    struct vramgc_device *device = store_device(8);
    struct vramgc_device_stats *stats = &device->stats;
    (void)state;
    gauge_set(&stats->held_bytes, 900);
    gauge_set(&stats->held_bytes, 100);
    gauge_set(&stats->used_bytes, 150);
    device->total_bytes = 940; /* what others held then is not known so well */
    store_sample(device, UINT64_C(3600000000000), 0);
    assert_int_equal(device->samples[0].held_bytes, 900);
    assert_int_equal(device->samples[0].used_bytes, 940);
    assert_int_equal(stats->used_bytes.peak, 940);
    device->sample_step_ns = 1;
    store_sample(device, 1, 0);
    assert_int_equal(device->samples[1].held_bytes, 100);
    device->sample_step_ns = UINT64_C(3600000000000);
    gauge_set(&stats->held_bytes, 500);
    store_sample(device, 1, 0);
    assert_int_equal(device->sample_count, 2);
    assert_int_equal(device->samples[1].held_bytes, 500);
    gauge_set(&stats->held_bytes, 10);
    for (uint64_t step = device->sample_step_ns = 1; step == 1; step = device->sample_step_ns)
        store_sample(device, 1, 0);
    assert_int_equal(device->samples[0].held_bytes, 900);
    assert_int_equal(device->samples[VRAMGC_MAX_SAMPLES / 2].held_bytes, 10);
}

/* Of a step, and of steps that become one, the least that a look found, and the average. */
static void samples_keep_lowest_and_average(void **state) {
    struct vramgc_device *device = store_device(11);
    struct vramgc_sample *sample = device->samples;
    (void)state;
    static const uint64_t live_mib[] = {500, 100, 300};
    for (size_t i = 0; i < 3; i++) {
        gauge_set(&device->stats.live_bytes, live_mib[i] * MEBIBYTE);
        gauge_set(&device->stats.held_bytes, (live_mib[i] + 50) * MEBIBYTE);
        sleep_ns(3 * MILLISECOND_NS);
        store_sample(device, UINT64_C(3600000000000), 0);
    }
    assert_int_equal(device->sample_count, 1);
    assert_int_equal(sample->allocated_bytes, 500 * MEBIBYTE);
    assert_int_equal(sample->allocated_low_bytes, 100 * MEBIBYTE);
    assert_int_equal(sample->held_low_bytes, 150 * MEBIBYTE);
    assert_true(sample->ms >= 6); /* the first look has none before it */
    uint64_t mean_kib = sample->allocated_ms_sum_kib / sample->ms;
    assert_true(mean_kib > 100 * 1024 && mean_kib < 300 * 1024);
}

/* Averages over time: what the looks saw, each for the time since the one before; up to Python's
 * end, which frees all of it, and where anything to speak of is live. */
static void averages_are_over_time(void **state) {
    struct vramgc_device *device = store_device(10);
    struct vramgc_device_stats *stats = &device->stats;
    (void)state;
    gauge_set(&stats->held_bytes, 300 * MEBIBYTE);
    gauge_set(&stats->other_bytes, 100 * MEBIBYTE);
    gauge_set(&stats->live_bytes, 50 * MEBIBYTE);
    store_sample(device, 1, 0);
    assert_int_equal(stats->held_ms_sum_kib, 0);
    sleep_ns(3 * MILLISECOND_NS);
    store_sample(device, 1, 0);
    uint64_t live = stats->live_ms_sum_kib;
    assert_true(live >= 3 * 50 * 1024);
    assert_int_equal(stats->held_ms_sum_kib, 4 * live);
    gauge_set(&stats->live_bytes, MEBIBYTE - 1);
    sleep_ns(3 * MILLISECOND_NS);
    store_sample(device, 1, 0);
    assert_int_equal(stats->live_ms_sum_kib, live);
    gauge_set(&stats->live_bytes, 50 * MEBIBYTE);
    store_python_ends();
    assert_true(store_file()->python_ended_ns > 0);
    sleep_ns(3 * MILLISECOND_NS);
    store_sample(device, 1, 0);
    assert_int_equal(stats->live_ms_sum_kib, live);
    store_file()->python_ended_ns = 0;
}

/* The timeline: when it is full two points become one and the step doubles; so no two points are
 * nearer to each other than a step, and the first one stays. */
static void samples(void **state) {
    enum { FIRST_STEP_NS = 2000 };
    struct vramgc_device *device = store_device(9);
    (void)state;
    device->stats.held_bytes.current = 1;
    store_sample(device, FIRST_STEP_NS, 0);
    uint64_t first_ns = device->samples[0].time_ns;
    while (device->sample_step_ns < 8 * FIRST_STEP_NS) {
        store_sample(device, FIRST_STEP_NS, 0);
        device->stats.held_bytes.current++;
        assert_true(device->sample_count <= VRAMGC_MAX_SAMPLES);
    }
    assert_int_equal(device->sample_count, VRAMGC_MAX_SAMPLES / 2 + 1);
    assert_int_equal(device->samples[0].time_ns, first_ns);
    for (uint64_t i = 1; i + 1 < device->sample_count; i++) {
        const struct vramgc_sample *sample = &device->samples[i];
        assert_true(sample->time_ns - sample[-1].time_ns >= device->sample_step_ns);
        assert_true(sample->held_bytes > sample[-1].held_bytes);
    }
    uint64_t count = device->sample_count;
    device->sample_step_ns = UINT64_C(3600000000000);
    store_sample(device, 1, 0);
    assert_int_equal(device->sample_count, count);
    store_sample(device, 1, 777); /* live memory was there for a moment */
    assert_int_equal(device->samples[count - 1].allocated_bytes, 777);
}

/* A look finds what was live since the one before, and idle memory that has gone back meanwhile. */
static void what_was_live_was_held(void **state) {
    struct vramgc_device *device = store_device(7);
    (void)state;
    device->total_bytes = 1000;
    gauge_set(&device->stats.held_bytes, 900);
    store_sample(device, 1, 100);
    gauge_set(&device->stats.held_bytes, 300);
    store_sample(device, 1, 700);
    assert_int_equal(device->samples[1].held_bytes, 700);
    gauge_set(&device->stats.spilled_bytes, 1); /* some of it lay in the host */
    store_sample(device, 1, 800);
    assert_int_equal(device->samples[2].held_bytes, 300);
}

/* Of two points that become one the one with more live memory stays, and who took memory last. */
static void who_keeps_the_highest(void **state) {
    struct vramgc_device *device = store_device(6);
    (void)state;
    for (uint64_t i = 0; i <= VRAMGC_MAX_WHO; i++)
        assert_true(store_who(
            device, 10,
            &(struct vramgc_who){.time_ns = 10 * i, .live_bytes = i % 4, .works = (uint32_t)i}));
    assert_int_equal(device->who_count, VRAMGC_MAX_WHO / 2 + 1);
    assert_int_equal(device->who_step_ns, 20);
    for (uint64_t i = 0; i < VRAMGC_MAX_WHO / 2; i++) {
        assert_int_equal(device->who[i].time_ns, 20 * i);
        assert_int_equal(device->who[i].live_bytes, i % 2 ? 3 : 1);
        assert_int_equal(device->who[i].works, 2 * i + 1);
    }
    assert_false(store_who(
        device, 10, &(struct vramgc_who){.time_ns = 10 * VRAMGC_MAX_WHO + 19, .live_bytes = 5}));
    assert_int_equal(device->who_count, VRAMGC_MAX_WHO / 2 + 1);
    assert_int_equal(device->who[VRAMGC_MAX_WHO / 2].live_bytes, 5);
}

/* Points become one where they lie close, and no others: a rest is not told of the work before it.
 */
static void who_keeps_a_rest_apart(void **state) {
    struct vramgc_device *device = store_device(7);
    (void)state;
    for (uint64_t i = 0; i < VRAMGC_MAX_WHO; i++)
        store_who(device, 10, &(struct vramgc_who){.time_ns = 10 * i * (i < 2 ? 1 : 1000)});
    assert_true(store_who(device, 10, &(struct vramgc_who){.time_ns = 10000 * VRAMGC_MAX_WHO}));
    assert_int_equal(device->who_count, VRAMGC_MAX_WHO);
    assert_int_equal(device->who[1].time_ns, 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_keep_the_highest),
        cmocka_unit_test(samples_keep_lowest_and_average),
        cmocka_unit_test(averages_are_over_time),
        cmocka_unit_test(samples),
        cmocka_unit_test(what_was_live_was_held),
        cmocka_unit_test(who_keeps_the_highest),
        cmocka_unit_test(who_keeps_a_rest_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
