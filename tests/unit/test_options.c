/* test_options.c: settings from the environment: every default is a value its own parser takes, a
 * bad value or name costs one sentence and nothing else, and what is shown can be typed again. */
#include "unit.h"

#include "base/options.h"
#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

static char sentences[8][512];
static size_t sentence_count;

static void keep(const char *sentence, void *context) {
    assert_ptr_equal(context, sentences);
    assert_true(sentence_count < 8);
    strncpy(sentences[sentence_count++], sentence, 511);
}

static int clean(void **state) {
    (void)state;
    clearenv();
    sentence_count = 0;
    memset(sentences, 0, sizeof sentences);
    return 0;
}

static const struct option_info *info_of(const char *variable) {
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].variable, variable) == 0)
            return &option_table[i];
    fail_msg("no setting %s", variable);
    return NULL;
}

static struct options read_with(const char *variable, const char *value, size_t complaints) {
    struct options options;
    setenv(variable, value, 1);
    sentence_count = 0;
    assert_int_equal(options_read(&options, NULL, keep, sentences), complaints);
    assert_int_equal(sentence_count, complaints);
    unsetenv(variable);
    return options;
}

static void defaults(void **state) {
    struct options options, read;
    enum option_origin origins[64];
    (void)state;
    options_defaults(&options);
    for (size_t i = 0; i < option_count; i++) {
        assert_true(option_set(&option_table[i], option_table[i].standard, &options));
        assert_memory_equal(option_table[i].variable, "VRAMGC_", 7);
    }
    assert_true(option_count <= 64);
    assert_int_equal(options_read(&read, origins, keep, sentences), 0);
    assert_memory_equal(&read, &options, sizeof read);
    for (size_t i = 0; i < option_count; i++)
        assert_int_equal(origins[i], ORIGIN_DEFAULT);
    assert_int_equal(read.threshold, 80);
    assert_int_equal(read.cooldown, 1000000000);
    assert_int_equal(read.spill, 0);
    assert_int_equal(read.log, LOG_WARN);
    assert_string_equal(read.out, "auto");
}

static void values(void **state) {
    (void)state;
    assert_true(read_with("VRAMGC_THRESHOLD", "37.5%", 0).threshold == 37.5);
    assert_true(read_with("VRAMGC_LOWVRAM", "yes", 0).lowvram);
    assert_int_equal(read_with("VRAMGC_COOLDOWN", "250ms", 0).cooldown, 250000000);
    assert_int_equal(read_with("VRAMGC_SPILL", "1.5G", 0).spill, 3 * GIB / 2);
    assert_int_equal(read_with("VRAMGC_BACKTRACE", "32", 0).backtrace, 32);
    assert_int_equal(read_with("VRAMGC_LOG", "DEBUG", 0).log, LOG_DEBUG);
    assert_string_equal(read_with("VRAMGC_OUT", "", 0).out, "");
    uint64_t part = read_with("VRAMGC_CAP", "12.5%", 0).cap;
    assert_int_equal(amount_bytes(part, 8 * GIB), GIB);
    assert_true(amount_percent(part) == 12.5);
    assert_int_equal(amount_bytes(read_with("VRAMGC_HEADROOM", "2GiB", 0).headroom, GIB), 2 * GIB);
    assert_int_equal(read_with("VRAMGC_HEADROOM", "0%", 0).headroom, 0);
}

/* Each is refused with one sentence, and the default stands. */
static void refusals(void **state) {
    static const struct {
        const char *variable, *value, *accepted;
    } rows[] = {
        {"VRAMGC_THRESHOLD", "101", "a percentage from 0 to 100"},
        {"VRAMGC_THRESHOLD", "-1", "a percentage from 0 to 100"},
        {"VRAMGC_THRESHOLD", "0.8", "a percentage from 0 to 100"},
        {"VRAMGC_THRESHOLD", "", "a percentage from 0 to 100"},
        {"VRAMGC_LOWVRAM", "maybe", "1, 0, true, false"},
        {"VRAMGC_COOLDOWN", "2h", "a duration up to 1 h 00 m, such as 100ms or 5s"},
        {"VRAMGC_COOLDOWN", "5", "lacks its unit: us, ms, s, m, h or d; using 1s"},
        {"VRAMGC_COOLDOWN", "0.5", "lacks its unit: us"},
        {"VRAMGC_SPILL", "1.5", "lacks its unit: KiB"},
        {"VRAMGC_SPILL", "16000", "lacks its unit: KiB"},
        {"VRAMGC_PARK", "30", "lacks its unit: us, ms, s, m, h or d"},
        {"VRAMGC_SPILL", "64", "lacks its unit: KiB, MiB or GiB"},
        {"VRAMGC_SPILL", "lots", "a size with its unit, such as 512MiB"},
        {"VRAMGC_SPILL", "2000T", "up to 909 TiB"},
        {"VRAMGC_CAP", "8", "lacks its unit: KiB, MiB or GiB"},
        {"VRAMGC_CAP", "101%", "or a part of the card, such as 80%"},
        {"VRAMGC_HEADROOM", "-1GiB", "a size with its unit, such as 2GiB"},
        {"VRAMGC_BACKTRACE", "33", "a whole number from 0 to 32"},
        {"VRAMGC_LOG", "loud", "one of off|error|warn|info|debug"},
    };
    struct options standard;
    (void)state;
    options_defaults(&standard);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct options options = read_with(rows[i].variable, rows[i].value, 1);
        assert_memory_equal(&options, &standard, sizeof options);
        assert_non_null(strstr(sentences[0], rows[i].variable));
        assert_non_null(strstr(sentences[0], rows[i].value));
        assert_non_null(strstr(sentences[0], rows[i].accepted));
        assert_non_null(strstr(sentences[0], "; using "));
        assert_null(strchr(sentences[0], '\n'));
    }
}

static void ratios(void **state) {
    (void)state;
    assert_true(read_with("VRAMGC_THRESHOLD", "0.8%", 0).threshold == 0.8);
    assert_true(read_with("VRAMGC_THRESHOLD", "0", 0).threshold == 0);
    assert_true(read_with("VRAMGC_THRESHOLD", "1", 0).threshold == 1);
}

static void long_texts(void **state) {
    char text[2 * OPTION_TEXT_BYTES];
    (void)state;
    memset(text, 'x', sizeof text);
    text[OPTION_TEXT_BYTES - 1] = 0;
    assert_string_equal(read_with("VRAMGC_OUT", text, 0).out, text);
    text[OPTION_TEXT_BYTES - 1] = 'x';
    text[sizeof text - 1] = 0;
    assert_string_equal(read_with("VRAMGC_OUT", text, 1).out, "auto");
    assert_true(strlen(sentences[0]) < 300);
}

static void unknown_names(void **state) {
    (void)state;
    read_with("VRAMGC_TRESHOLD", "1", 1);
    assert_string_equal(sentences[0],
                        "VRAMGC_TRESHOLD is not a setting; did you mean VRAMGC_THRESHOLD?");
    read_with("VRAMGC_XYZZY_PLUGH", "1", 1);
    assert_string_equal(sentences[0],
                        "VRAMGC_XYZZY_PLUGH is not a setting; `vramgc help settings` lists them");
    read_with("VRAMGC_", "1", 1);
    read_with("VRAMGC_RUN_ID", "1", 0);
    read_with("VRAMGC_TEST_REST", "5ms", 0);
    read_with("VRAMGC", "1", 0);
    read_with("XVRAMGC_FOO", "1", 0);
    char name[300] = "VRAMGC_";
    memset(name + 7, 'Y', sizeof name - 8);
    read_with(name, "1", 1);
}

static void origins(void **state) {
    struct options options;
    enum option_origin origins[64];
    (void)state;
    setenv("VRAMGC_THRESHOLD", "50", 1);
    setenv("VRAMGC_MODE", "fast", 1);
    assert_int_equal(options_read(&options, origins, NULL, NULL), 1);
    assert_int_equal(origins[info_of("VRAMGC_THRESHOLD") - option_table], ORIGIN_ENVIRONMENT);
    assert_int_equal(origins[info_of("VRAMGC_MODE") - option_table], ORIGIN_INVALID);
    assert_int_equal(origins[info_of("VRAMGC_LOG") - option_table], ORIGIN_DEFAULT);
}

/* What is shown, typed again, gives the same setting. */
static void shown_values(void **state) {
    static const struct {
        const char *variable, *value;
    } rows[] = {
        {"VRAMGC_THRESHOLD", "37.5"}, {"VRAMGC_SPILL", "512KiB"}, {"VRAMGC_LOWVRAM", "on"},
        {"VRAMGC_COOLDOWN", "250ms"}, {"VRAMGC_COOLDOWN", "90s"}, {"VRAMGC_SPILL", "3M"},
        {"VRAMGC_BACKTRACE", "7"},    {"VRAMGC_LOG", "error"},    {"VRAMGC_OUT", "a b"},
        {"VRAMGC_MODE", "observe"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct option_info *info = info_of(rows[i].variable);
        struct options options, again;
        char shown[300];
        options_defaults(&options);
        options_defaults(&again);
        assert_true(option_set(info, rows[i].value, &options));
        option_show(info, &options, shown, sizeof shown);
        assert_true(option_set(info, shown, &again));
        assert_memory_equal(&options, &again, sizeof options);
    }
}

/* A command may hold a password; what it is told is no setting. */
static void commands(void **state) {
    char shown[64];
    (void)state;
    setenv("VRAMGC_ALERT_COUNT", "1", 1);
    struct options options = read_with("VRAMGC_ON", "oom:curl -H token=1", 0);
    assert_string_equal(options.on, "oom:curl -H token=1");
    option_show(info_of("VRAMGC_ON"), &options, shown, sizeof shown);
    assert_string_equal(shown, "(commands)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, clean),   cmocka_unit_test_setup(values, clean),
        cmocka_unit_test_setup(refusals, clean),   cmocka_unit_test_setup(ratios, clean),
        cmocka_unit_test_setup(long_texts, clean), cmocka_unit_test_setup(unknown_names, clean),
        cmocka_unit_test_setup(origins, clean),    cmocka_unit_test_setup(shown_values, clean),
        cmocka_unit_test_setup(commands, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
