/* test_text.c: texts of fixed size: they are cut, never overrun, and numbers look the same
 * whatever the locale says. */
#include "unit.h"

#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void adds_and_cuts(void **state) {
    (void)state;
    char data[8], guard[16];
    memset(guard, 'x', sizeof guard);
    struct text text = TEXT_IN(data);
    assert_string_equal(data, "");
    text_add(&text, "abc");
    assert_string_equal(data, "abc");
    text_add(&text, "defghijk");
    assert_string_equal(data, "abcdefg");
    assert_int_equal(text.length, 7);
    text_add(&text, "x");
    text_format(&text, "%d", 12345);
    assert_string_equal(data, "abcdefg");
    text = text_in(guard + 4, 1);
    text_add(&text, "abc");
    text_format(&text, "abc");
    assert_memory_equal(guard, "xxxx\0xxxxxxxxxxx", 16);
}

static void formats(void **state) {
    (void)state;
    char data[8];
    struct text text = TEXT_IN(data);
    text_format(&text, "%s-%u", "ab", 7u);
    assert_string_equal(data, "ab-7");
    text_format(&text, "%s", "cdefgh");
    assert_string_equal(data, "ab-7cde");
    assert_int_equal(text.length, 7);
    text = TEXT_IN(data);
    text_add_n(&text, "abcdef", 3);
    assert_string_equal(data, "abc");
}

static const struct {
    uint64_t bytes;
    const char *text;
} sizes[] = {
    {0, "0 B"},
    {1, "1 B"},
    {640, "640 B"},
    {1023, "1023 B"},
    {1024, "1.0 KiB"},
    {1536, "1.5 KiB"},
    {99 * KIB + 972, "99.9 KiB"},
    {100 * KIB, "100 KiB"},
    {MIB - 1, "1.0 MiB"},
    {512 * MIB, "512 MiB"},
    {5 * GIB + 717 * MIB, "5.7 GiB"},
    {24 * GIB, "24.0 GiB"},
    {1024 * GIB, "1.0 TiB"},
    {UINT64_MAX, "16384 PiB"},
};

static void bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char data[32];
        struct text text = TEXT_IN(data);
        text_add_bytes(&text, sizes[i].bytes);
        assert_string_equal(data, sizes[i].text);
    }
}

static const struct {
    uint64_t ns;
    const char *text;
} durations[] = {
    {0, "0 ns"},
    {999, "999 ns"},
    {1000, "1.0 us"},
    {12000, "12.0 us"},
    {99999, "100 us"},
    {100000, "0.1 ms"},
    {400000, "0.4 ms"},
    {38 * UINT64_C(1000000), "38.0 ms"},
    {246 * UINT64_C(1000000), "246 ms"},
    {7100 * UINT64_C(1000000), "7.1 s"},
    {59 * UINT64_C(1000000000), "59.0 s"},
    {60 * UINT64_C(1000000000), "1 m 00 s"},
    {3599 * UINT64_C(1000000000), "59 m 59 s"},
    {3720 * UINT64_C(1000000000), "1 h 02 m"},
};

static void times(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        char data[32];
        struct text text = TEXT_IN(data);
        text_add_duration(&text, durations[i].ns);
        assert_string_equal(data, durations[i].text);
    }
}

static void decimals(void **state) {
    static const struct {
        double value;
        unsigned decimals;
        const char *text;
    } rows[] = {
        {0, 0, "0"},
        {1.25, 1, "1.3"},
        {-1.5, 1, "-1.5"},
        {0.999, 2, "1.00"},
        {3.14159, 4, "3.1416"},
        {2, 6, "2.000000"},
        {12.04, 2, "12.04"},
        {1e13, 0, "?"},
        {-1e13, 0, "?"},
        {1.0 / 3, 9, "0.333333"},
    };
    (void)state;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* a comma, where there is such a locale */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char data[32];
        struct text text = TEXT_IN(data);
        text_add_decimal(&text, rows[i].value, rows[i].decimals);
        if (rows[i].decimals <= 6)
            assert_string_equal(data, rows[i].text);
    }
    setlocale(LC_ALL, "C");
    char data[32];
    struct text text = TEXT_IN(data);
    double zero = 0;
    text_add_decimal(&text, zero / zero, 1);
    assert_string_equal(data, "?");
}

static void patterns(void **state) {
    char data[128], expected[128];
    struct text text = TEXT_IN(data);
    (void)state;
    text_add_pattern(&text, "a-%p-%e-%%-%q-%");
    snprintf(expected, sizeof expected, "a-%ld-%s-%%-%%q-%%", (long)getpid(),
             program_invocation_short_name);
    assert_string_equal(data, expected);
    text = TEXT_IN(data);
    text_add_pattern(&text, "");
    assert_string_equal(data, "");
    text = text_in(data, 5);
    text_add_pattern(&text, "%%%%%%%%%%%%");
    assert_string_equal(data, "%%%%");
}

/* Whoever starts a program chooses its name. */
static void names_that_climb(void **state) {
    static char *const names[] = {"..", ".", "", "..."};
    char data[128], *before = program_invocation_short_name;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct text text = TEXT_IN(data);
        program_invocation_short_name = names[i];
        text_add_pattern(&text, "a/%e/b");
        assert_string_equal(data, "a/unnamed/b");
    }
    program_invocation_short_name = before;
}

static void copies(void **state) {
    char data[6];
    (void)state;
    memset(data, 'x', sizeof data);
    text_copy(data, sizeof data, "ab");
    assert_memory_equal(data, "ab\0\0\0\0", 6);
    text_copy(data, sizeof data, "abcdefgh");
    assert_memory_equal(data, "abcde\0", 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_and_cuts),
        cmocka_unit_test(formats),
        cmocka_unit_test(bytes),
        cmocka_unit_test(times),
        cmocka_unit_test(decimals),
        cmocka_unit_test(patterns),
        cmocka_unit_test(names_that_climb),
        cmocka_unit_test(copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
