/* test_parse.c: numbers with units as people type them; what is not wholly a value is refused,
 * and the variable stays as it was. */
#include "unit.h"

#include "base/parse.h"

#include <string.h>

enum { UNTOUCHED = 4711 };

struct row {
    const char *text;
    uint64_t value;
};

static const char *const never[] = {"",     " ",   "-1",    "+1",  "x",   "1x",  "1 x",
                                    "0x10", "1e3", "inf",   "nan", ".",   "1..", "1.2.3",
                                    "1,5",  "one", "1KiBx", " 1",  "1\n", "--",  "1-"};

static void check(bool (*parse)(const char *, uint64_t *), const struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value = UNTOUCHED;
        if (!parse(rows[i].text, &value) || value != rows[i].value)
            fail_msg("'%s' gave %llu, not %llu", rows[i].text, (unsigned long long)value,
                     (unsigned long long)rows[i].value);
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        uint64_t value = UNTOUCHED;
        if (parse(never[i], &value) || value != UNTOUCHED)
            fail_msg("'%s' was taken for a value", never[i]);
    }
}

static void refuse(bool (*parse)(const char *, uint64_t *), const char *text) {
    uint64_t value = UNTOUCHED;
    if (parse(text, &value) || value != UNTOUCHED)
        fail_msg("'%s' was taken for a value", text);
}

#define CHECK(parse, rows) check(parse, rows, sizeof rows / sizeof *rows)

static void sizes(void **state) {
    static const struct row rows[] = {
        {"0", 0},
        {"1", 1},
        {"100B", 100},
        {"64k", 64 * KIB},
        {"64KB", 64 * KIB},
        {"64kib", 64 * KIB},
        {"512MiB", 512 * MIB},
        {"512 MiB", 512 * MIB},
        {"1.5G", 3 * GIB / 2},
        {".5g", GIB / 2},
        {"2TiB", 2048 * GIB},
        {"1.", 1},
        {"00012", 12},
        {"0.1k", 102},
        {"16777215T", UINT64_C(16777215) << 40},
    };
    (void)state;
    CHECK(parse_size, rows);
    refuse(parse_size, "16777216T");
    refuse(parse_size, "99999999999999999999999");
    refuse(parse_size, "1s");
    refuse(parse_size, "1KK");
}

static void durations(void **state) {
    static const struct row rows[] = {
        {"0", 0},
        {"250ns", 250},
        {"1.5us", 1500},
        {"100ms", 100000000},
        {"100 ms", 100000000},
        {"5s", UINT64_C(5000000000)},
        {"2m", UINT64_C(120000000000)},
        {"1h", UINT64_C(3600000000000)},
        {"30d", UINT64_C(2592000000000000)},
        {"0.5H", UINT64_C(1800000000000)},
    };
    (void)state;
    CHECK(parse_duration, rows);
    refuse(parse_duration, "3");
    refuse(parse_duration, "1w");
    refuse(parse_duration, "1GiB");
    refuse(parse_duration, "99999999999h");
}

static void counts(void **state) {
    static const struct row rows[] = {
        {"0", 0}, {"42", 42}, {"007", 7}, {"18446744073709551609", UINT64_MAX - 6}};
    (void)state;
    CHECK(parse_count, rows);
    refuse(parse_count, "1.0");
    refuse(parse_count, "18446744073709551616");
    refuse(parse_count, "99999999999999999999");
}

static void percents(void **state) {
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"80", 80}, {"80%", 80}, {"80 %", 80}, {"37.5%", 37.5}, {"0", 0}, {"250", 250}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = -1;
        assert_true(parse_percent(rows[i].text, &value));
        assert_true(value == rows[i].value);
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        double value = -1;
        assert_false(parse_percent(never[i], &value));
        assert_true(value == -1);
    }
    double value = -1;
    assert_false(parse_percent("80%%", &value));
    assert_false(parse_percent("%", &value));
    assert_true(value == -1);
}

static void booleans(void **state) {
    static const char *const yes[] = {"1", "true", "TRUE", "yes", "On"};
    static const char *const no[] = {"0", "false", "no", "oFF"};
    static const char *const neither[] = {"", "2", "ye", "yess", "on ", "t", "0|1", "|"};
    bool value = false;
    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++, value = false)
        assert_true(parse_bool(yes[i], &value) && value);
    value = true;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++, value = true)
        assert_true(parse_bool(no[i], &value) && !value);
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++)
        assert_false(parse_bool(neither[i], &value));
    assert_true(value);
}

static void choices(void **state) {
    (void)state;
    assert_int_equal(parse_choice("off", "off|observe|flush"), 0);
    assert_int_equal(parse_choice("FLUSH", "off|observe|flush"), 2);
    assert_int_equal(parse_choice("flus", "off|observe|flush"), -1);
    assert_int_equal(parse_choice("flushx", "off|observe|flush"), -1);
    assert_int_equal(parse_choice("", "off|observe|flush"), -1);
    assert_int_equal(parse_choice("off|observe", "off|observe|flush"), -1);
    assert_int_equal(parse_choice("a", ""), -1);
}

static void distances(void **state) {
    (void)state;
    assert_int_equal(parse_distance("", ""), 0);
    assert_int_equal(parse_distance("abc", "ABC"), 0);
    assert_int_equal(parse_distance("abc", ""), 3);
    assert_int_equal(parse_distance("", "abc"), 3);
    assert_int_equal(parse_distance("kitten", "sitting"), 3);
    assert_int_equal(parse_distance("VRAMGC_TRESHOLD", "VRAMGC_THRESHOLD"), 1);
    assert_int_equal(parse_distance("abcd", "acbd"), 1); /* two that changed places */
    assert_int_equal(parse_distance("rnu", "Run"), 1);
    assert_int_equal(parse_distance("abcd", "badc"), 2);
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(parse_distance(longer, ""), 31); /* no more is looked at */
    assert_int_equal(parse_distance(longer, longer), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),     cmocka_unit_test(durations), cmocka_unit_test(counts),
        cmocka_unit_test(percents),  cmocka_unit_test(booleans),  cmocka_unit_test(choices),
        cmocka_unit_test(distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
