/* test_policy_decay.c: mode compact: the rule of policy.h that says how old idle memory may get.
 * The device has 100 GiB, so that one GiB is one percent. */
#include "standard_policy.h"

/* Nothing else lives on the device, of which so many GiB are used; 0: its size is not known. */
static struct policy_decay decay_at(const struct policy_settings *settings, uint64_t used,
                                    uint64_t attached, uint64_t retained) {
    struct policy_idle idle = {
        .total_bytes = used ? TOTAL : 0,
        .used_bytes = used * GIB,
        .kept_bytes = attached * GIB,
        .returned_bytes = retained * GIB,
        .live_bytes = used > attached + retained ? (used - attached - retained) * GIB : 0,
    };
    return policy_decay(settings, &idle);
}

/* Wherever the device stands. */
static void what_was_given_up_goes_once_not_needed_for_a_sixteenth_of_a_rest(void **unused) {
    (void)unused;
    for (uint64_t used = 0; used <= 100; used += 20) {
        struct policy_decay decay = decay_at(&standard, used, 20, 10);
        assert_int_equal(decay.returned_ns, standard.quiet_ns / 16);
    }
}

static void below_the_threshold_the_cache_stays(void **unused) {
    (void)unused;
    for (uint64_t used = 0; used <= 80; used += 40) /* not known; half; just at it */
        assert_int_equal(decay_at(&standard, used, 20, 10).kept_bytes, 0);
}

static void above_the_threshold_the_cache_goes_down_to_it_after_the_cool_down(void **unused) {
    struct policy_settings settings = standard;
    (void)unused;
    settings.idle_most_ns = 3 * SECOND;
    struct policy_decay decay = decay_at(&settings, 81, 20, 0);
    assert_int_equal(decay.kept_ns, 3 * SECOND);
    assert_int_equal(decay.kept_bytes, 1 * GIB);
    /* What was given up goes first, and may be enough. */
    assert_int_equal(decay_at(&settings, 90, 20, 4).kept_bytes, 6 * GIB);
    assert_int_equal(decay_at(&settings, 90, 20, 10).kept_bytes, 0);
    assert_int_equal(decay_at(&settings, 90, 20, 15).kept_bytes, 0);
}

static void lowvram_the_more_is_idle_the_sooner_it_goes(void **unused) {
    static const struct {
        uint64_t used, attached, retained;
        uint64_t linger; /* in percent of a two hundredth of a rest */
    } rows[] = {
        {20, 10, 0, 100}, {20, 0, 10, 100}, {20, 4, 6, 100}, {15, 5, 0, 200},
        {30, 20, 0, 50},  {50, 40, 0, 0},   {50, 20, 20, 0}, {100, 1, 0, 9900},
    };
    struct policy_settings settings = standard;
    (void)unused;
    settings.lowvram = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct policy_decay decay =
            decay_at(&settings, rows[i].used, rows[i].attached, rows[i].retained);
        assert_int_equal(decay.kept_ns,
                         rows[i].linger * settings.quiet_ns / POLICY_LINGER_PART / 100);
        assert_int_equal(decay.returned_ns, decay.kept_ns);
        assert_int_equal(decay.kept_bytes, rows[i].attached * GIB);
    }
    struct policy_idle little = {.live_bytes = 80 * GIB, .kept_bytes = GIB / 4};
    assert_int_equal(policy_decay(&settings, &little).kept_ns, settings.quiet_ns);
    assert_int_equal(decay_at(&settings, 15, 0, 0).kept_ns, settings.quiet_ns); /* a rest at most */
    assert_int_equal(decay_at(&settings, 0, 0, 0).kept_ns, 0);
}

/* However much is idle; what PyTorch has given up waits no longer than without lowvram. */
static void lowvram_waits_for_the_pace(void **unused) {
    struct policy_settings settings = standard;
    struct policy_idle idle = {.total_bytes = TOTAL, .kept_bytes = 40 * GIB};
    (void)unused;
    settings.lowvram = true;
    idle.pace_ns = settings.quiet_ns / 20;
    assert_int_equal(policy_decay(&settings, &idle).kept_ns, settings.quiet_ns / 20);
    assert_int_equal(policy_decay(&settings, &idle).returned_ns, settings.quiet_ns / 20);
    idle.pace_ns = settings.quiet_ns;
    assert_int_equal(policy_decay(&settings, &idle).kept_ns, settings.quiet_ns);
    assert_int_equal(policy_decay(&settings, &idle).returned_ns, settings.quiet_ns / 16);
    settings.lowvram = false;
    assert_int_equal(policy_decay(&settings, &idle).kept_ns, settings.idle_most_ns);
}

/* Work of a third of the time is not too much, of a sixth not little. */
static void the_pace_follows_the_share_of_time(void **unused) {
    const struct policy_settings *s = &standard;
    uint64_t pace = 0, linger = standard.quiet_ns / POLICY_LINGER_PART;
    (void)unused;
    assert_int_equal(policy_pace(s, 0, 20, 60), 0);
    assert_int_equal(policy_pace(s, 0, 21, 60), linger);
    assert_int_equal(policy_pace(s, linger, 21, 60), 2 * linger);
    assert_int_equal(policy_pace(s, 2 * linger, 20, 60), 2 * linger);
    assert_int_equal(policy_pace(s, 2 * linger, 10, 60), 2 * linger);
    assert_int_equal(policy_pace(s, 2 * linger, 9, 60), linger);
    assert_int_equal(policy_pace(s, linger, 9, 60), 0);
    for (int i = 0; i < 64; i++)
        pace = policy_pace(s, pace, 60, 60);
    assert_int_equal(pace, standard.quiet_ns);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_up_goes_once_not_needed_for_a_sixteenth_of_a_rest),
        cmocka_unit_test(below_the_threshold_the_cache_stays),
        cmocka_unit_test(above_the_threshold_the_cache_goes_down_to_it_after_the_cool_down),
        cmocka_unit_test(lowvram_the_more_is_idle_the_sooner_it_goes),
        cmocka_unit_test(lowvram_waits_for_the_pace),
        cmocka_unit_test(the_pace_follows_the_share_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
