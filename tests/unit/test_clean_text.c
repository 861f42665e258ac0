/* test_clean_text.c: what a text from outside may do to a terminal: nothing. */
#include "unit.h"

#include "base/clean_text.h"

#include <string.h>

static const char *cleaned(const char *from) {
    static char text[64];
    strcpy(text, from);
    clean_text(text, strlen(text) + 1);
    return text;
}

static void controls(void **state) {
    (void)state;
    assert_string_equal(cleaned("a\x1b[31mb\x07"), "a?[31mb?");
    assert_string_equal(cleaned("a\tb\nc\rd"), "a b c d");
    assert_string_equal(cleaned("\x7f\xc2\x9b"), "??");
    assert_string_equal(cleaned("a\xff\xc3"), "a??");
}

static void direction(void **state) {
    static const char *const marks[] = {"\xd8\x9c",     "\xe2\x80\x8e", "\xe2\x80\x8f",
                                        "\xe2\x80\xa8", "\xe2\x80\xaa", "\xe2\x80\xae",
                                        "\xe2\x81\xa6", "\xe2\x81\xa9"};
    (void)state;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        assert_string_equal(cleaned(marks[i]), "?");
}

static void others_stay(void **state) {
    (void)state;
    assert_string_equal(cleaned("Stra\xc3\x9f"
                                "e \xe4\xb8\xad \xf0\x9f\x98\x80"),
                        "Stra\xc3\x9f"
                        "e \xe4\xb8\xad \xf0\x9f\x98\x80");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(controls), cmocka_unit_test(direction),
                                       cmocka_unit_test(others_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
