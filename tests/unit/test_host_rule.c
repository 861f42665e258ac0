/* test_host_rule.c: when host memory goes back: at rest only, where there is something to gain, and
 * for a hundredth of the time at most. */
#include "unit.h"

#include "policy/policy.h"

#define MIB ((uint64_t)1 << 20)
#define MS  ((uint64_t)1000000)

/* A process that uses so much of a processor, from then on, looked at each 50 ms. Since when it
 * counts as resting, in ms; 0: it does not after five seconds. */
static uint64_t rests_after_ms(double processors) {
    struct host_pace pace = {0};
    uint64_t start_ms = 1000, used_ns = 0;
    for (uint64_t ms = start_ms; ms < start_ms + 5000; ms += 50) {
        if (host_rests(&pace, ms * MS, used_ns, 0))
            return ms - start_ms;
        used_ns += (uint64_t)(processors * 50 * (double)MS);
    }
    return 0;
}

static void at_rest_after_half_a_second(void **state) {
    (void)state;
    assert_int_equal(rests_after_ms(0), 500);
    assert_int_equal(rests_after_ms(0.05), 500);
    assert_int_equal(rests_after_ms(0.2), 0);
    assert_int_equal(rests_after_ms(3), 0);
}

/* A moment of work begins the rest anew. */
static void work_ends_a_rest(void **state) {
    (void)state;
    struct host_pace pace = {0};
    uint64_t used_ns = 0;
    for (uint64_t ms = 1000; ms < 1450; ms += 50)
        assert_false(host_rests(&pace, ms * MS, used_ns, 0));
    used_ns += 20 * MS;
    assert_false(host_rests(&pace, 1450 * MS, used_ns, 0));
    for (uint64_t ms = 1500; ms < 1950; ms += 50)
        assert_false(host_rests(&pace, ms * MS, used_ns, 0));
    assert_true(host_rests(&pace, 1950 * MS, used_ns, 0));
}

/* A release in several pieces goes on at once, although its own clock is read a moment later. */
static void our_own_release_is_no_work(void **state) {
    (void)state;
    struct host_pace pace = {0};
    uint64_t own_ns = 7 * MS;
    for (uint64_t ms = 1000; ms < 1500; ms += 50)
        assert_false(host_rests(&pace, ms * MS, 9 * MS + own_ns, own_ns + ms / 50 % 2));
    for (uint64_t ms = 1500; ms < 2000; ms += 50, own_ns += 50 * MS)
        assert_true(host_rests(&pace, ms * MS, 9 * MS + own_ns, own_ns + ms / 50 % 2));
}

static struct host_has has(uint64_t mib) {
    return (struct host_has){mib * MIB, 0, mib * MIB};
}

/* All that is not in use its allocator keeps. */
static struct host_has uses(uint64_t mib, uint64_t in_use_mib) {
    return (struct host_has){mib * MIB, in_use_mib * MIB, (mib - in_use_mib) * MIB};
}

static void only_what_is_more_than_before(void **state) {
    (void)state;
    struct host_rule rule = {0};
    assert_true(host_release_is_due(&rule, 1000 * MS, has(180)));
    host_released(&rule, 1000 * MS, 0, has(180), has(180)); /* all of it is in use */
    assert_false(host_release_is_due(&rule, 9000 * MS, has(190)));
    assert_true(host_release_is_due(&rule, 9000 * MS, has(1800)));
}

/* A model that the allocator kept: the process has as much as before, but less of it is in use. */
static void what_was_freed_since(void **state) {
    (void)state;
    struct host_rule rule = {0};
    struct host_has loaded = uses(7400, 3600), rests = uses(3700, 3600), freed = uses(3700, 400);
    assert_true(host_release_is_due(&rule, 1000 * MS, loaded));
    host_released(&rule, 1000 * MS, 40 * MS, loaded, rests);
    assert_false(host_release_is_due(&rule, 9000 * MS, rests));
    assert_true(host_release_is_due(&rule, 9000 * MS, freed));
}

/* Page-locked memory, what was mapped; and what its allocator keeps, of which nothing is there. */
static void what_nobody_keeps_is_nothing_to_gain(void **state) {
    (void)state;
    struct host_rule rule = {0};
    assert_false(host_release_is_due(&rule, 1000 * MS, (struct host_has){160 * MIB, 100 * MIB, 0}));
    struct host_has mapped = {1360 * MIB, 100 * MIB, 0};
    struct host_has untouched = {1360 * MIB, 100 * MIB, 540 * MIB};
    assert_false(host_release_is_due(&rule, 2000 * MS, mapped));
    assert_true(host_release_is_due(&rule, 3000 * MS, untouched)); /* some may be there */
    rule = (struct host_rule){0};
    assert_false(host_release_is_due(&rule, 1000 * MS, (struct host_has){160 * MIB, 100 * MIB, 0}));
    untouched.bytes = 160 * MIB;
    assert_false(host_release_is_due(&rule, 2000 * MS, untouched));
}

/* A program, what its allocator keeps, and what of that the system has already. */
struct process {
    uint64_t mapped_mib, in_use_mib, there_mib, gone_mib;
    struct host_rule rule;
    uint64_t given_mib;
};

static void takes(struct process *process, uint64_t mib) {
    uint64_t there_mib = mib < process->there_mib ? mib : process->there_mib;
    uint64_t gone_mib = mib - there_mib;
    process->there_mib -= there_mib;
    process->gone_mib -= gone_mib < process->gone_mib ? gone_mib : process->gone_mib;
    process->in_use_mib += mib;
}

static void gives(struct process *process, uint64_t mib) {
    process->in_use_mib -= mib;
    process->there_mib += mib;
}

static struct host_has had_by(const struct process *process) {
    return (struct host_has){(process->mapped_mib + process->in_use_mib + process->there_mib) * MIB,
                             process->in_use_mib * MIB,
                             (process->there_mib + process->gone_mib) * MIB};
}

static void rests(struct process *process, uint64_t now_ns) {
    struct host_has before = had_by(process);
    if (!host_release_is_due(&process->rule, now_ns, before))
        return;
    process->given_mib += process->there_mib;
    process->gone_mib += process->there_mib;
    process->there_mib = 0;
    host_released(&process->rule, now_ns, 0, before, had_by(process));
}

static void is_observed(struct process *process, uint64_t now_ns) {
    struct host_has has = had_by(process);
    process->given_mib += host_release_observed(&process->rule, now_ns, has) / MIB;
}

static void does(struct process *process, unsigned what, uint64_t mib) {
    if (what == 0)
        process->mapped_mib = mib;
    else if (what == 1 || mib >= process->in_use_mib)
        takes(process, mib);
    else
        gives(process, mib);
}

/* Two programs do the same, so slowly that there is time for each release. What mode observe tells
 * of one is what the other gives back. */
static void observed_is_what_would_be_given(void **state) {
    (void)state;
    struct process is = {.mapped_mib = 60, .in_use_mib = 100}, would = is;
    uint64_t now_ms = 1000;
    srand((unsigned)unit_seed(18));
    for (unsigned i = 0; i < 2000; i++, now_ms += 1000 + 10 * (uint64_t)(rand() % 2000)) {
        unsigned what = (unsigned)(rand() % 3);
        uint64_t mib = 50 * (uint64_t)(rand() % 30);
        does(&is, what, mib);
        does(&would, what, mib);
        rests(&is, now_ms * MS);
        is_observed(&would, now_ms * MS);
        assert_int_equal(would.given_mib, is.given_mib);
    }
    assert_true(is.given_mib > 10000);
}

/* As in a_hundredth_of_the_time: a model that comes and goes each second is not told of each time;
 * what did not come back cost nothing. */
static void observed_in_a_hundredth_of_the_time(void **state) {
    (void)state;
    struct process would = {.mapped_mib = 60, .in_use_mib = 100};
    takes(&would, 1536);
    is_observed(&would, 1000 * MS);
    for (uint64_t ms = 2000; ms < 110000; ms += 1000) {
        gives(&would, 1536);
        is_observed(&would, ms * MS);
        assert_int_equal(would.given_mib, 1536 * (1 + (ms >= 55000) + (ms >= 109000)));
        takes(&would, 1536);
        is_observed(&would, ms * MS);
    }
    would = (struct process){.mapped_mib = 60, .in_use_mib = 4000};
    for (uint64_t ms = 1000; ms < 5000; ms += 1000) {
        is_observed(&would, ms * MS);
        assert_int_equal(would.given_mib, ms - 1000);
        gives(&would, 1000);
    }
}

/* Another model is in use. */
static void what_is_loaded_is_nothing_to_gain(void **state) {
    (void)state;
    struct host_rule rule = {0};
    host_released(&rule, 1000 * MS, 0, uses(250, 50), uses(150, 50));
    assert_false(host_release_is_due(&rule, 9000 * MS, uses(7100, 7000)));
}

/* 1.5 GiB take half a second to be mapped anew: it has to be 51 s old to have so much time. What
 * did not come back cost nothing. */
static void a_hundredth_of_the_time(void **state) {
    (void)state;
    struct host_rule rule = {0};
    assert_true(host_release_is_due(&rule, 1000 * MS, has(1716)));
    host_released(&rule, 1000 * MS, 0, has(1716), has(180));
    assert_true(host_release_is_due(&rule, 2000 * MS, has(200)));
    assert_false(host_release_is_due(&rule, 50000 * MS, has(1716)));
    assert_false(host_release_is_due(&rule, 50000 * MS, has(200))); /* it had come back */
    assert_true(host_release_is_due(&rule, 55000 * MS, has(1716)));
    host_released(&rule, 55000 * MS, 0, has(1716), has(180));
    assert_false(host_release_is_due(&rule, 105000 * MS, has(1716)));
    assert_true(host_release_is_due(&rule, 109000 * MS, has(1716)));
}

/* How many releases of 1.5 GiB one after the other after so long a rest. */
static unsigned saved_up(uint64_t rest_ms) {
    struct host_rule rule = {0};
    uint64_t now_ms = 1000;
    unsigned releases = 0;
    host_release_is_due(&rule, now_ms * MS, has(0));
    for (now_ms += rest_ms; host_release_is_due(&rule, now_ms * MS, has(1716)); now_ms += 100) {
        host_released(&rule, now_ms * MS, 0, has(1716), has(180));
        releases++;
    }
    return releases;
}

static void what_rests_saves_time_up(void **state) {
    (void)state;
    assert_int_equal(saved_up(1000), 1);
    assert_int_equal(saved_up(110 * 1000), 3);
    assert_int_equal(saved_up(3600 * 1000), 6);
}

static void what_a_release_took_is_a_tenth(void **state) {
    (void)state;
    struct host_rule rule = {0};
    host_released(&rule, 1000 * MS, 300 * MS, uses(1716, 100), uses(180, 100));
    assert_false(host_release_is_due(&rule, 3900 * MS, has(180)));
    assert_true(host_release_is_due(&rule, 4000 * MS, has(180)));
}

/* A model that stays is no reason to try for each 16 MiB. */
static void little_gained_waits_for_more(void **state) {
    (void)state;
    struct host_rule rule = {.spare_bytes = 180 * MIB};
    unsigned releases = 0;
    for (uint64_t ms = 0; ms < 1000; ms++) {
        struct host_has now = has(180 + 16 * ms);
        if (host_release_is_due(&rule, ms * 1000 * MS, now)) {
            host_released(&rule, ms * 1000 * MS, 0, now, now);
            releases++;
        }
    }
    assert_in_range(releases, 16, 26);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_rest_after_half_a_second),
        cmocka_unit_test(work_ends_a_rest),
        cmocka_unit_test(our_own_release_is_no_work),
        cmocka_unit_test(only_what_is_more_than_before),
        cmocka_unit_test(what_was_freed_since),
        cmocka_unit_test(what_nobody_keeps_is_nothing_to_gain),
        cmocka_unit_test(observed_is_what_would_be_given),
        cmocka_unit_test(observed_in_a_hundredth_of_the_time),
        cmocka_unit_test(what_is_loaded_is_nothing_to_gain),
        cmocka_unit_test(a_hundredth_of_the_time),
        cmocka_unit_test(what_rests_saves_time_up),
        cmocka_unit_test(what_a_release_took_is_a_tenth),
        cmocka_unit_test(little_gained_waits_for_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
