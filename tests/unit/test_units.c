/* test_units.c: figures beside their sum add up as they are read. */
#include "unit.h"

#include "base/base.h"
#include "read/units.h"

#include <stdlib.h>
#include <string.h>

/* What a reader takes a figure for, in MiB. */
static double read_mib(struct figure figure) {
    char *unit;
    double value = strtod(figure.text, &unit);
    return strcmp(unit, " GiB") == 0 ? value * 1024 : strcmp(unit, " MiB") == 0 ? value : -1;
}

static void assert_shows(const uint64_t *bytes, size_t count, size_t kept,
                         const char *const *texts) {
    struct figure figures[8];
    show_parts(bytes, figures, count, kept);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(figures[i].text, texts[i]);
}

#define ASSERT_SHOWS(kept, parts, ...)                                                             \
    do {                                                                                           \
        const char *const texts[] = {__VA_ARGS__};                                                 \
        assert_shows(parts, ARRAY_LENGTH(texts), kept, texts);                                     \
    } while (0)

static void what_adds_up_stays(void **state) {
    const uint64_t parts[] = {3788 * MIB, 256 * MIB, 4148 * MIB};
    (void)state;
    ASSERT_SHOWS(0, parts, "3.7 GiB", "256 MiB", "4.1 GiB");
}

/* 3.24, 1.24 and 3.52 make 8.00: 3.2, 1.2 and 3.5 do not. */
static void the_most_rounded_gives_way(void **state) {
    const uint64_t parts[] = {3314 * MIB, 1273 * MIB, 3605 * MIB};
    (void)state;
    ASSERT_SHOWS(2, parts, "3.2 GiB", "1.3 GiB", "3.5 GiB");
    ASSERT_SHOWS(1, parts, "3.3 GiB", "1.2 GiB", "3.5 GiB");
}

static void others_are_as_they_were(void **state) {
    const uint64_t one[] = {5727 * MIB}, small[] = {900 * MIB, 20 * MIB};
    (void)state;
    ASSERT_SHOWS(0, one, "5.6 GiB");
    ASSERT_SHOWS(0, small, "900 MiB", "20.0 MiB");
}

static void whatever_it_is_it_adds_up(void **state) {
    (void)state;
    srand((unsigned)unit_seed(1));
    for (int i = 0; i < 20000; i++) {
        uint64_t parts[4], sum = 0;
        struct figure figures[4];
        double read = 0;
        for (size_t j = 0; j < 4; j++)
            sum += parts[j] = (1024 + (uint64_t)rand() % 20000) * MIB;
        show_parts(parts, figures, 4, 3);
        for (size_t j = 0; j < 4; j++) {
            double off = read_mib(figures[j]) - (double)(parts[j] / MIB);
            assert_true(off < 103 && off > -103);
            read += read_mib(figures[j]);
        }
        assert_string_equal(figures[3].text, show_bytes(parts[3]).text);
        double off = read - read_mib(show_bytes(sum));
        assert_true(off < 52 && off > -52); /* half of 0.1 GiB */
    }
}

static void a_sum_is_of_what_is_shown(void **state) {
    (void)state;
    assert_string_equal(show_sum(1264 * MIB, 1264 * MIB).text, "2.4 GiB"); /* 1.2 and 1.2; 2.47 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_adds_up_stays),        cmocka_unit_test(the_most_rounded_gives_way),
        cmocka_unit_test(others_are_as_they_were),   cmocka_unit_test(whatever_it_is_it_adds_up),
        cmocka_unit_test(a_sum_is_of_what_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
