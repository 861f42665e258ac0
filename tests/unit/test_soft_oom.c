/* test_soft_oom.c: each case in which a request must not be refused, alone and together with
 * others: the verdict names it, and no combination of them ever becomes safe. */
#include "unit.h"

#include "policy/policy.h"

#include <string.h>

static const struct soft_oom_facts safe = {
    .from_allocator = true,
    .stream_asked = true,
    .releasable_bytes = GIB,
    .min_gain_bytes = 32 * MIB,
};

/* Each spoils the facts in one way. */
static void spoil(struct soft_oom_facts *facts, unsigned way) {
    switch (way) {
    case 0:
        facts->from_allocator = false;
        break;
    case 1:
        facts->stream_asked = false;
        break;
    case 2:
        facts->stream_capturing = true;
        break;
    case 3:
        facts->capturing = true;
        break;
    case 4:
        facts->frees_since_block = 1;
        break;
    case 5:
        facts->under_way_bytes = 512;
        break;
    case 6:
        facts->expandable = true;
        break;
    case 7:
        facts->broken = true;
        break;
    case 8:
        facts->releasable_bytes = 0;
        break;
    case 9:
        facts->min_gain_bytes = GIB + 1;
        break;
    case 10:
        facts->asked_again = true;
        break;
    default:
        fail();
    }
}

enum { WAYS = 11 };

static const enum soft_oom verdicts[WAYS] = {
    SOFT_OOM_NOT_ALLOCATOR, SOFT_OOM_UNCACHED, SOFT_OOM_CAPTURING,  SOFT_OOM_CAPTURING,
    SOFT_OOM_RETRY,         SOFT_OOM_INDUCED,  SOFT_OOM_EXPANDABLE, SOFT_OOM_BROKEN,
    SOFT_OOM_NO_GAIN,       SOFT_OOM_NO_GAIN,  SOFT_OOM_RETRY,
};

static void nothing_speaks_against_it(void **state) {
    struct soft_oom_facts facts = safe;
    (void)state;
    assert_int_equal(soft_oom_check(&facts), SOFT_OOM_SAFE);
    facts.min_gain_bytes = GIB; /* just enough */
    assert_int_equal(soft_oom_check(&facts), SOFT_OOM_SAFE);
    facts.min_gain_bytes = 0;
    facts.releasable_bytes = 1;
    assert_int_equal(soft_oom_check(&facts), SOFT_OOM_SAFE);
}

static void each_alone(void **state) {
    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct soft_oom_facts facts = safe;
        spoil(&facts, way);
        assert_int_equal(soft_oom_check(&facts), verdicts[way]);
    }
}

static void nothing_gains_without_a_gain(void **state) {
    struct soft_oom_facts facts = safe;
    (void)state;
    facts.releasable_bytes = 0;
    facts.min_gain_bytes = 0;
    assert_int_equal(soft_oom_check(&facts), SOFT_OOM_NO_GAIN);
}

static void all_combinations(void **state) {
    (void)state;
    for (unsigned set = 1; set < 1u << WAYS; set++) {
        struct soft_oom_facts facts = safe;
        bool named = false;
        for (unsigned way = 0; way < WAYS; way++)
            if (set >> way & 1)
                spoil(&facts, way);
        enum soft_oom verdict = soft_oom_check(&facts);
        assert_int_not_equal(verdict, SOFT_OOM_SAFE);
        for (unsigned way = 0; way < WAYS; way++)
            named = named || ((set >> way & 1) && verdicts[way] == verdict);
        assert_true(named);
    }
}

static void every_verdict_has_its_own_words(void **state) {
    (void)state;
    for (int a = 0; a < SOFT_OOM_VERDICTS; a++) {
        assert_string_not_equal(soft_oom_name((enum soft_oom)a), "?");
        for (int b = 0; b < a; b++)
            assert_string_not_equal(soft_oom_name((enum soft_oom)a),
                                    soft_oom_name((enum soft_oom)b));
    }
    assert_string_equal(soft_oom_name(SOFT_OOM_VERDICTS), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_speaks_against_it),       cmocka_unit_test(each_alone),
        cmocka_unit_test(nothing_gains_without_a_gain),    cmocka_unit_test(all_combinations),
        cmocka_unit_test(every_verdict_has_its_own_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
