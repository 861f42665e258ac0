/* test_policy_decay.c: mode compact: the rule of policy.h that says how old idle memory may get.
 * The device has 100 GiB, so that one GiB is one percent. */
#include "standard_policy.h"

/* So many GiB of the device are used; 0: its size is not known. */
static struct policy_decay decay_at(const struct policy_settings *settings, uint64_t used,
                                    uint64_t kept, uint64_t returned) {
    struct policy_idle idle = {
        .total_bytes = used ? TOTAL : 0,
        .used_bytes = used * GIB,
        .kept_bytes = kept * GIB,
        .returned_bytes = returned * GIB,
    };
    return policy_decay(settings, &idle);
}

static void what_pytorch_returned_goes_sooner_above_the_threshold(void **unused) {
    struct policy_settings settings = standard;
    (void)unused;
    settings.idle_most_ns = 3 * SECOND;
    for (uint64_t used = 0; used <= 80; used += 40) /* not known; half; just at it */
        assert_int_equal(decay_at(&settings, used, 20, 10).returned_ns, 3 * SECOND);
    assert_int_equal(decay_at(&settings, 81, 20, 10).returned_ns, standard.quiet_ns);
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

static void lowvram_all_goes_soon(void **unused) {
    struct policy_settings settings = standard;
    (void)unused;
    settings.lowvram = true;
    for (uint64_t used = 0; used <= 100; used += 20) {
        struct policy_decay decay = decay_at(&settings, used, 10, 5);
        assert_int_equal(decay.kept_ns, LOWVRAM_KEPT_NS);
        assert_int_equal(decay.returned_ns, LOWVRAM_KEPT_NS);
        assert_int_equal(decay.kept_bytes, 10 * GIB);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_pytorch_returned_goes_sooner_above_the_threshold),
        cmocka_unit_test(below_the_threshold_the_cache_stays),
        cmocka_unit_test(above_the_threshold_the_cache_goes_down_to_it_after_the_cool_down),
        cmocka_unit_test(lowvram_all_goes_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
