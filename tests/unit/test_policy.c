/* test_policy.c: each rule of policy.h as a row of a table, and then whole programs in a closed
 * loop, in which a flush changes what the policy reads next. The device has 100 GiB, so that one
 * GiB is one percent. */
#include "standard_policy.h"

/* ---- single decisions ---- */

enum { NOT = 0, FLUSH = 1, TRIM = 2, BOTH = 3 };
enum { LOWVRAM = 1, ASKED = 2, NO_TOTAL = 4, OFF = 8, OBSERVE = 16 };

struct row {
    const char *what;
    uint64_t used, request, releasable, pool; /* GiB = percent, but see in_mib */
    unsigned how;
    unsigned expected;
    enum policy_reason reason;
    bool in_mib; /* releasable and pool are MiB */
};

static const struct row rows[] = {
    {"below the threshold", 79, 0, 9, 0, 0, NOT, POLICY_NO_REASON, false},
    {"at the threshold is not over it", 80, 0, 9, 0, 0, NOT, POLICY_NO_REASON, false},
    {"a tick finds it over", 81, 0, 9, 0, 0, FLUSH, POLICY_THRESHOLD, false},
    {"a request would carry it over", 75, 6, 9, 0, 0, FLUSH, POLICY_THRESHOLD, false},
    {"a request carries it just there", 75, 5, 9, 0, 0, NOT, POLICY_NO_REASON, false},
    {"nothing to be had", 90, 0, 0, 0, 0, NOT, POLICY_NO_REASON, false},
    {"too little to be had", 90, 0, 31, 0, 0, NOT, POLICY_NO_REASON, true},
    {"just enough", 90, 0, 32, 0, 0, FLUSH, POLICY_THRESHOLD, true},
    {"enough from pools alone", 90, 0, 0, 32, 0, TRIM, POLICY_THRESHOLD, true},
    {"enough from both together", 90, 0, 16, 16, 0, BOTH, POLICY_THRESHOLD, true},
    {"not enough from both together", 90, 0, 16, 15, 0, NOT, POLICY_NO_REASON, true},
    {"a full device is left to PyTorch", 90, 11, 50, 0, 0, NOT, POLICY_NO_REASON, false},
    {"all that is free is not more than is free", 90, 10, 50, 0, 0, FLUSH, POLICY_THRESHOLD, false},
    {"full: pools too", 90, 11, 50, 1, 0, NOT, POLICY_NO_REASON, false},
    {"full: below the threshold too", 50, 51, 40, 1, 0, NOT, POLICY_NO_REASON, false},
    {"full: lowvram too", 90, 11, 50, 1, LOWVRAM, NOT, POLICY_NO_REASON, false},
    {"full: nothing idle in lowvram", 90, 11, 50, 0, LOWVRAM, NOT, POLICY_NO_REASON, false},
    {"total unknown", 90, 0, 9, 9, NO_TOTAL, NOT, POLICY_NO_REASON, false},
    {"total unknown, request", 90, 99, 9, 9, NO_TOTAL, NOT, POLICY_NO_REASON, false},
    {"total unknown, lowvram", 90, 0, 9, 9, NO_TOTAL | LOWVRAM, NOT, POLICY_NO_REASON, false},
    {"total unknown, asked", 90, 0, 9, 9, NO_TOTAL | ASKED, BOTH, POLICY_ASKED, false},
    {"asked below the threshold", 10, 0, 9, 0, ASKED, FLUSH, POLICY_ASKED, false},
    {"asked for very little", 10, 0, 1, 1, ASKED, BOTH, POLICY_ASKED, true},
    {"asked while it is full", 90, 11, 9, 9, ASKED, BOTH, POLICY_ASKED, false},
    {"asked with nothing to be had", 10, 0, 0, 0, ASKED, NOT, POLICY_NO_REASON, false},
    {"lowvram far below the threshold", 10, 0, 9, 0, LOWVRAM, FLUSH, POLICY_LOWVRAM, false},
    {"lowvram too little", 10, 0, 31, 0, LOWVRAM, NOT, POLICY_NO_REASON, true},
    {"lowvram not at a request", 85, 5, 9, 0, LOWVRAM, NOT, POLICY_NO_REASON, false},
    {"lowvram and asked", 10, 0, 1, 0, LOWVRAM | ASKED, FLUSH, POLICY_ASKED, true},
    {"off", 90, 0, 9, 9, OFF, NOT, POLICY_NO_REASON, false},
    {"off and asked", 90, 0, 9, 9, OFF | ASKED, NOT, POLICY_NO_REASON, false},
    {"off and full", 90, 11, 9, 9, OFF, NOT, POLICY_NO_REASON, false},
    {"off and lowvram", 90, 0, 9, 9, OFF | LOWVRAM, NOT, POLICY_NO_REASON, false},
    {"observe", 90, 0, 9, 9, OBSERVE, BOTH, POLICY_THRESHOLD, false},
    {"observe nothing", 79, 0, 9, 9, OBSERVE, NOT, POLICY_NO_REASON, false},
    {"observe what was asked", 10, 0, 9, 0, OBSERVE | ASKED, FLUSH, POLICY_ASKED, false},
};

static void check_row(const struct row *row) {
    struct policy_settings settings = standard;
    struct policy_state state = {0};
    uint64_t unit = row->in_mib ? MIB : GIB;
    struct policy_reading reading = {
        .now_ns = SECOND,
        .total_bytes = row->how & NO_TOTAL ? 0 : TOTAL,
        .free_bytes = TOTAL - row->used * GIB,
        .releasable_bytes = row->releasable * unit,
        .pool_idle_bytes = row->pool * unit,
        .request_bytes = row->request * GIB,
        .asked = row->how & ASKED,
    };
    settings.lowvram = row->how & LOWVRAM;
    if (row->how & (OFF | OBSERVE))
        settings.mode = row->how & OFF ? POLICY_OFF : POLICY_OBSERVE;
    struct policy_decision decision = policy_decide(&settings, &state, &reading);
    unsigned is = (decision.flush ? FLUSH : 0u) | (decision.trim ? TRIM : 0u);
    bool observed = row->expected != NOT && (row->how & OBSERVE);
    if (is != row->expected || decision.reason != row->reason || decision.observed != observed)
        fail_msg("%s: decided %u for reason %d, observed %d", row->what, is, decision.reason,
                 decision.observed);
    assert_false(state.acted);
}

static void decides_by_the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&rows[i]);
}

/* ---- one after the other ---- */

static struct policy_reading reading_at(uint64_t now_ns, uint64_t used, uint64_t releasable) {
    return (struct policy_reading){
        .now_ns = now_ns,
        .latest_event_ns = now_ns,
        .total_bytes = TOTAL,
        .free_bytes = TOTAL - used * GIB,
        .releasable_bytes = releasable * GIB,
    };
}

static bool would_flush_idle(struct policy_state *state, uint64_t now_ns, uint64_t used,
                             uint64_t idle) {
    struct policy_reading reading = reading_at(now_ns, used, idle);
    return policy_decide(&standard, state, &reading).flush;
}

static bool would_flush(struct policy_state *state, uint64_t now_ns, uint64_t used) {
    return would_flush_idle(state, now_ns, used, 1);
}

static void act(struct policy_state *state, uint64_t now_ns) {
    policy_acted(&standard, state, now_ns);
}

/* Utilisation falls, so that the policy is armed. */
static void act_below(struct policy_state *state, uint64_t now_ns) {
    act(state, now_ns);
    assert_false(would_flush(state, now_ns, 60));
}

static void the_cool_down_is_kept(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act_below(&state, 10 * SECOND);
    assert_false(would_flush(&state, 11 * SECOND - 1, 81));
    assert_true(would_flush(&state, 11 * SECOND, 81));
}

static void the_first_action_needs_no_cool_down(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    assert_true(would_flush(&state, 1, 81));
}

static void a_clock_that_runs_back_is_no_time(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act_below(&state, 10 * SECOND);
    assert_false(would_flush(&state, 2 * SECOND, 81));
}

/* A second, two, four, eight, sixteen, and no longer. */
static void the_cool_down_doubles_where_reclaims_do_not_last(void **unused) {
    struct policy_state state = {0};
    uint64_t now_ns = 10 * SECOND, wait_ns = SECOND;
    (void)unused;
    act_below(&state, now_ns);
    for (int i = 0; i < 10; i++) {
        assert_false(would_flush(&state, now_ns + wait_ns - 1, 81));
        now_ns += wait_ns;
        assert_true(would_flush(&state, now_ns, 81));
        act_below(&state, now_ns);
        wait_ns = wait_ns < 16 * SECOND ? 2 * wait_ns : wait_ns;
    }
}

static void one_that_lasted_makes_the_cool_down_as_set(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act_below(&state, 10 * SECOND);
    act_below(&state, 11 * SECOND);     /* from now on two seconds */
    act_below(&state, 15 * SECOND - 1); /* four */
    assert_false(would_flush(&state, 19 * SECOND - 2, 81));
    act_below(&state, 23 * SECOND - 1);
    assert_true(would_flush(&state, 24 * SECOND - 1, 81));
}

/* A soft out-of-memory gave back a part, our own thread the rest. */
static void the_rest_of_a_reclaim_is_no_second_one(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act_below(&state, 10 * SECOND);
    act_below(&state, 10 * SECOND + 1);
    assert_true(would_flush(&state, 11 * SECOND + 1, 81));
}

static void at_rest_the_cool_down_is_as_set(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act_below(&state, 10 * SECOND);
    act_below(&state, 11 * SECOND);
    struct policy_reading reading = reading_at(12 * SECOND, 81, 1);
    assert_false(policy_decide(&standard, &state, &reading).flush);
    reading.latest_event_ns = 11 * SECOND + 1;
    assert_false(policy_decide(&standard, &state, &reading).flush);
    reading.latest_event_ns = 11 * SECOND;
    assert_true(policy_decide(&standard, &state, &reading).flush);
}

static void disarmed_until_it_falls_below(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act(&state, 0);
    assert_false(would_flush(&state, 10 * SECOND, 83));
    assert_false(would_flush(&state, 11 * SECOND, 76));
    assert_false(would_flush(&state, 12 * SECOND, 83));
    assert_false(would_flush(&state, 13 * SECOND, 75));
    assert_true(would_flush(&state, 14 * SECOND, 81));
}

/* By the least since the reclaim; however much is used. */
static void disarmed_until_more_is_idle(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act(&state, 0);
    assert_false(would_flush_idle(&state, 10 * SECOND, 85, 20));
    assert_false(would_flush_idle(&state, 11 * SECOND, 95, 10));
    assert_false(would_flush_idle(&state, 12 * SECOND, 95, 14));
    assert_true(would_flush_idle(&state, 13 * SECOND, 85, 15));
    act(&state, 20 * SECOND);
    assert_false(would_flush_idle(&state, 30 * SECOND, 85, 15));
}

/* Trimming pools counts as well. */
static void what_pools_keep_is_idle_too(void **unused) {
    struct policy_state state = {0};
    struct policy_reading reading = reading_at(10 * SECOND, 85, 1);
    (void)unused;
    act(&state, 0);
    assert_false(policy_decide(&standard, &state, &reading).flush);
    reading.pool_idle_bytes = 5 * GIB;
    assert_true(policy_decide(&standard, &state, &reading).trim);
}

/* Both are noticed even when the cool-down forbids to act, and while there is nothing to gain. */
static void arming_is_seen_during_the_cool_down(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act(&state, 10 * SECOND);
    assert_false(would_flush_idle(&state, 10 * SECOND + 1, 60, 0));
    assert_true(would_flush(&state, 12 * SECOND, 81));
    act(&state, 20 * SECOND);
    assert_false(would_flush_idle(&state, 20 * SECOND + 1, 85, 0));
    assert_true(would_flush_idle(&state, 22 * SECOND, 85, 5));
}

static void a_full_device_does_not_arm(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act(&state, 10 * SECOND);
    assert_false(would_flush(&state, 11 * SECOND, 85));
    struct policy_reading full = reading_at(11 * SECOND + 1, 85, 9);
    full.request_bytes = 16 * GIB;
    full.pool_idle_bytes = 1;
    assert_int_equal(policy_decide(&standard, &state, &full).reason, POLICY_NO_REASON);
    assert_false(would_flush(&state, 20 * SECOND, 86));
}

static void what_is_asked_knows_no_cool_down_and_no_hysteresis(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act(&state, 10 * SECOND);
    struct policy_reading reading = reading_at(10 * SECOND, 85, 1);
    reading.asked = true;
    assert_int_equal(policy_decide(&standard, &state, &reading).reason, POLICY_ASKED);
}

static void more_free_than_there_is_counts_as_unused(void **unused) {
    struct policy_state state = {0};
    struct policy_reading reading = reading_at(0, 0, 1);
    (void)unused;
    reading.free_bytes = TOTAL + GIB;
    assert_false(policy_decide(&standard, &state, &reading).flush);
}

/* ---- lowvram ---- */

static bool lowvram_flushes(struct policy_state *state, uint64_t event_ns, uint64_t now_ns) {
    struct policy_settings settings = standard;
    struct policy_reading reading = reading_at(now_ns, 20, 1);
    settings.lowvram = true;
    reading.latest_event_ns = event_ns;
    return policy_decide(&settings, state, &reading).flush;
}

static void lowvram_waits_for_rest(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    assert_false(lowvram_flushes(&state, SECOND, SECOND));
    assert_false(lowvram_flushes(&state, SECOND, SECOND + standard.quiet_ns - 1));
    assert_false(lowvram_flushes(&state, SECOND, SECOND / 2));
    assert_true(lowvram_flushes(&state, SECOND, SECOND + standard.quiet_ns));
}

static void lowvram_acts_once_per_rest_and_after_the_cool_down(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act(&state, 10 * SECOND);
    assert_false(lowvram_flushes(&state, 9 * SECOND, 20 * SECOND));
    assert_false(lowvram_flushes(&state, 9 * SECOND, 200 * SECOND));
    assert_false(lowvram_flushes(&state, 10 * SECOND + 1, 11 * SECOND - 1));
    assert_true(lowvram_flushes(&state, 10 * SECOND + 1, 11 * SECOND));
}

/* ---- programs in a closed loop ---- */

/* One program on the device: live bytes, and a cache that a flush empties. */
struct program {
    struct policy_settings settings;
    struct policy_state state;
    uint64_t now_ns, event_ns;
    uint64_t live, cache; /* MiB */
    unsigned flushes;
    uint64_t latest_flush_ns, shortest_pause_ns;
};

static struct program program_with(struct policy_settings settings, uint64_t live) {
    return (struct program){
        .settings = settings, .live = live, .now_ns = SECOND, .shortest_pause_ns = UINT64_MAX};
}

static void record_flush(struct program *program, bool observed) {
    uint64_t pause = program->now_ns - program->latest_flush_ns;
    if (program->flushes > 0 && pause < program->shortest_pause_ns)
        program->shortest_pause_ns = pause;
    program->latest_flush_ns = program->now_ns;
    program->flushes++;
    if (!observed)
        program->cache = 0;
    policy_acted(&program->settings, &program->state, program->now_ns);
}

static void tick(struct program *program) {
    struct policy_reading reading = {
        .now_ns = program->now_ns,
        .latest_event_ns = program->event_ns,
        .total_bytes = TOTAL,
        .free_bytes = TOTAL - (program->live + program->cache) * MIB,
        .releasable_bytes = program->cache * MIB,
    };
    struct policy_decision decision = policy_decide(&program->settings, &program->state, &reading);
    if (decision.flush)
        record_flush(program, decision.observed);
}

/* Runs for a while, a tick each 10 ms; the cache fills up to `cache` within half a second. */
static void work(struct program *program, uint64_t duration_ns, uint64_t cache) {
    for (uint64_t end = program->now_ns + duration_ns; program->now_ns < end;) {
        program->now_ns += SECOND / 100;
        program->event_ns = program->now_ns;
        if (program->cache < cache)
            program->cache += cache / 50 + 1;
        tick(program);
    }
}

static void rest(struct program *program, uint64_t duration_ns) {
    for (uint64_t end = program->now_ns + duration_ns; program->now_ns < end;) {
        program->now_ns += SECOND / 100;
        tick(program);
    }
}

/* Its live memory is 85 % and it caches 3 % again and again: one flush, then peace. */
static void a_program_above_the_threshold_is_not_flushed_for_ever(void **unused) {
    struct program program = program_with(standard, 85 * 1024);
    (void)unused;
    work(&program, 3600 * SECOND, 3 * 1024);
    assert_int_equal(program.flushes, 1);
    program.live = 60 * 1024;
    program.cache = 0;
    work(&program, 5 * SECOND, 3 * 1024);
    assert_int_equal(program.flushes, 1);
    program.live = 79 * 1024;
    work(&program, 5 * SECOND, 3 * 1024);
    assert_int_equal(program.flushes, 2);
}

/* Flux with a text encoder, models moved to host memory after use: what was needed while the first
 * reclaim came, above the threshold, is idle later. */
static void what_a_model_leaves_behind_is_given_back(void **unused) {
    struct program program = program_with(standard, 86 * 1024);
    (void)unused;
    work(&program, 5 * SECOND, 1024);
    assert_int_equal(program.flushes, 1);
    program.live = 0;
    program.cache = 87 * 1024;
    rest(&program, SECOND);
    assert_int_equal(program.flushes, 2);
}

/* It caches 30 % within half a second, whenever it can: what is given back is taken anew, so that
 * it is done ever more rarely, until the program rests. */
static void a_greedy_program_is_flushed_ever_more_rarely_and_when_it_rests(void **unused) {
    struct program program = program_with(standard, 60 * 1024);
    (void)unused;
    work(&program, 100 * SECOND, 30 * 1024);
    assert_in_range(program.flushes, 5, 10);
    assert_true(program.shortest_pause_ns >= SECOND);
    work(&program, SECOND, 30 * 1024);
    unsigned flushes = program.flushes;
    rest(&program, SECOND + SECOND / 10);
    assert_int_equal(program.cache, 0);
    assert_in_range(program.flushes, flushes, flushes + 1);
}

static void a_small_program_is_left_alone(void **unused) {
    struct program program = program_with(standard, 40 * 1024);
    (void)unused;
    work(&program, 100 * SECOND, 39 * 1024);
    assert_int_equal(program.flushes, 0);
}

static void lowvram_knows_no_back_off(void **unused) {
    struct policy_state state = {0};
    (void)unused;
    act(&state, 10 * SECOND);
    act(&state, 11 * SECOND);
    assert_true(lowvram_flushes(&state, 12 * SECOND - standard.quiet_ns, 12 * SECOND));
}

static void lowvram_gives_back_at_each_rest_and_not_during_work(void **unused) {
    struct policy_settings settings = standard;
    (void)unused;
    settings.lowvram = true;
    struct program program = program_with(settings, 10 * 1024);
    for (unsigned image = 1; image <= 5; image++) {
        work(&program, 10 * SECOND, 8 * 1024);
        assert_int_equal(program.flushes, image - 1);
        rest(&program, 10 * SECOND);
        assert_int_equal(program.flushes, image);
        assert_int_equal(program.cache, 0);
    }
}

/* Nothing is taken away, so the same idle memory must not be recorded once a second. */
static void observe_records_one_crossing_once(void **unused) {
    struct policy_settings settings = standard;
    (void)unused;
    settings.mode = POLICY_OBSERVE;
    struct program program = program_with(settings, 60 * 1024);
    program.cache = 22 * 1024;
    work(&program, 100 * SECOND, 0);
    assert_int_equal(program.flushes, 1);
    settings.lowvram = true;
    program = program_with(settings, 60 * 1024);
    work(&program, 5 * SECOND, 22 * 1024);
    rest(&program, 100 * SECOND);
    assert_int_equal(program.flushes, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_by_the_table),
        cmocka_unit_test(the_cool_down_is_kept),
        cmocka_unit_test(the_first_action_needs_no_cool_down),
        cmocka_unit_test(a_clock_that_runs_back_is_no_time),
        cmocka_unit_test(the_cool_down_doubles_where_reclaims_do_not_last),
        cmocka_unit_test(one_that_lasted_makes_the_cool_down_as_set),
        cmocka_unit_test(the_rest_of_a_reclaim_is_no_second_one),
        cmocka_unit_test(at_rest_the_cool_down_is_as_set),
        cmocka_unit_test(disarmed_until_it_falls_below),
        cmocka_unit_test(disarmed_until_more_is_idle),
        cmocka_unit_test(what_pools_keep_is_idle_too),
        cmocka_unit_test(arming_is_seen_during_the_cool_down),
        cmocka_unit_test(a_full_device_does_not_arm),
        cmocka_unit_test(what_is_asked_knows_no_cool_down_and_no_hysteresis),
        cmocka_unit_test(more_free_than_there_is_counts_as_unused),
        cmocka_unit_test(lowvram_waits_for_rest),
        cmocka_unit_test(lowvram_acts_once_per_rest_and_after_the_cool_down),
        cmocka_unit_test(a_program_above_the_threshold_is_not_flushed_for_ever),
        cmocka_unit_test(what_a_model_leaves_behind_is_given_back),
        cmocka_unit_test(a_greedy_program_is_flushed_ever_more_rarely_and_when_it_rests),
        cmocka_unit_test(a_small_program_is_left_alone),
        cmocka_unit_test(lowvram_knows_no_back_off),
        cmocka_unit_test(lowvram_gives_back_at_each_rest_and_not_during_work),
        cmocka_unit_test(observe_records_one_crossing_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
