/* test_alloc_conf.c: which versions get expandable segments, how a version is read, and who wins.
 * The place of PyTorch's library is given by the test. */
#include "unit.h"

#include "cuda/objects.h"
#include "govern/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD_NAME "PYTORCH_CUDA_ALLOC_CONF"
#define NEW_NAME "PYTORCH_ALLOC_CONF"
#define MARK     "VRAMGC_CHOSE_ALLOC_CONF"

static const char *const left_for_others[] = {MARK, "VRAMGC_GIVEN_CUDA_ALLOC_CONF",
                                              "VRAMGC_GIVEN_ALLOC_CONF"};

static struct {
    char folder[64];
    char version[96];  /* torch/version.py */
    char library[112]; /* torch/lib/libc10_cuda.so; "": not loaded */
    bool aimdo;        /* comfy-aimdo is loaded */
} self;

bool objects_path(const char *stem, unsigned nth, char *path, size_t capacity) {
    if (strcmp(stem, "aimdo") == 0)
        return self.aimdo;
    assert_string_equal(stem, "libc10_cuda.so");
    if (nth > 0 || !self.library[0] || strlen(self.library) >= capacity)
        return false;
    strcpy(path, self.library);
    return true;
}

static void write_version(const char *content) {
    FILE *file = fopen(self.version, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static int begin(void **state) {
    (void)state;
    unsetenv(OLD_NAME);
    unsetenv(NEW_NAME);
    for (size_t i = 0; i < sizeof left_for_others / sizeof *left_for_others; i++)
        unsetenv(left_for_others[i]);
    self.aimdo = false;
    strcpy(self.folder, "/tmp/vramgc-test-XXXXXX");
    if (!mkdtemp(self.folder))
        return -1;
    snprintf(self.version, sizeof self.version, "%s/version.py", self.folder);
    snprintf(self.library, sizeof self.library, "%s/lib/libc10_cuda.so", self.folder);
    write_version("from typing import Optional\n\n__all__ = ['__version__', 'debug']\n"
                  "__version__ = '2.9.1+cu128'\ndebug = False\n");
    return 0;
}

static int end(void **state) {
    (void)state;
    unlink(self.version);
    return rmdir(self.folder);
}

static void sound_versions(void **state) {
    static const char *const sound[] = {"2.1.1",        "2.1.2+cu121", "2.5.1+cu124", "2.9.1",
                                        "2.12.1+cu130", "2.14.1",      "2.15.0+cu132"};
    static const char *const not_sound[] = {
        "2.16.0+cu132", "3.0.0", "1.12.0",      "1.13.1+cu117", "2.0.0", "2.0.1+cu118", "2.13.0",
        "2.13.1",       "",      "2",           "2.",           "2.5",   "v2.5.1",      "nonsense",
        ".2.5",         "0.1.0", "2.1.0+cu121", "2.1.0"};
    (void)state;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++)
        assert_true(alloc_conf_is_sound(sound[i]));
    for (size_t i = 0; i < sizeof not_sound / sizeof *not_sound; i++)
        assert_false(alloc_conf_is_sound(not_sound[i]));
}

static void reads_versions(void **state) {
    char version[32] = "";
    (void)state;
    assert_true(torch_read_version(self.version, version, sizeof version));
    assert_string_equal(version, "2.9.1+cu128");
    write_version("__version__ = \"2.1.2+cu121\"\n"); /* in the first line, and the other quotes */
    assert_true(torch_read_version(self.version, version, sizeof version));
    assert_string_equal(version, "2.1.2+cu121");
}

static void refuses_what_is_no_version(void **state) {
    static const char *const contents[] = {
        "",
        "\n",
        "__all__ = ['__version__']\n",
        "__version__ = \n",
        "__version__ = ''\n",
        "my__version__ = '2.5.1'\n",
        "__version__ = '2.5.1.with.a.tail.that.no.version.ever.had'\n"};
    char version[32] = "before";
    (void)state;
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        write_version(contents[i]);
        assert_false(torch_read_version(self.version, version, sizeof version));
    }
    assert_false(torch_read_version("/nowhere/version.py", version, sizeof version));
    assert_false(torch_read_version("/tmp", version, sizeof version));
    assert_string_equal(version, "before");
}

static void what_a_setting_says(void **state) {
    (void)state;
#define SAYS(setting) alloc_conf_says(setting, "expandable_segments", "True")
    assert_true(SAYS("expandable_segments:True"));
    assert_true(SAYS("max_split_size_mb:512,expandable_segments:True"));
    assert_true(SAYS("expandable_segments : True , max_split_size_mb:512"));
    assert_true(SAYS("roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True"));
    assert_false(SAYS(""));
    assert_false(SAYS("expandable_segments"));
    assert_false(SAYS("expandable_segments:"));
    assert_false(SAYS("expandable_segments:False"));
    assert_false(SAYS("expandable_segments:Tru"));
    assert_false(SAYS("expandable_segments:True1"));
    assert_false(SAYS("my_expandable_segments:True"));
    assert_false(SAYS("expandable_segments_:True"));
    assert_false(SAYS("backend:expandable_segments"));
#undef SAYS
    assert_true(alloc_conf_says("backend: cudaMallocAsync", "backend", "cudaMallocAsync"));
}

static void becomes(const char *setting, const char *value) {
    char out[128];
    assert_true(alloc_conf_with_choice(setting, false, out, sizeof out));
    assert_string_equal(out, value);
}

static void what_a_setting_becomes(void **state) {
    char out[128];
    (void)state;
    becomes("garbage_collection_threshold:0.80,max_split_size_mb:512",
            "garbage_collection_threshold:0.80,expandable_segments:True");
    becomes("max_split_size_mb:512", "expandable_segments:True");
    becomes(" max_split_size_mb : 512 ,backend:native", "backend:native,expandable_segments:True");
    becomes("roundup_power2_divisions:[256:1,512:2,>:4],max_split_size_mb:64",
            "roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True");
    becomes("max_split_size_mb:64,,", "expandable_segments:True");
    becomes("", "expandable_segments:True");
    becomes("max_split_size_mb:512,expandable_segments:True", "expandable_segments:True");
    becomes("expandable_segments: True,max_split_size_mb:512,roundup_power2_divisions:4",
            "expandable_segments: True,roundup_power2_divisions:4");
    static const char *const stay[] = {"expandable_segments:False", "expandable_segments :True",
                                       "expandable_segments:", "backend:cudaMallocAsync",
                                       "per_process_memory_fraction:0.5"};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        assert_false(alloc_conf_with_choice(stay[i], false, out, sizeof out));
    assert_true(alloc_conf_with_choice("a:1", false, out, sizeof "a:1,expandable_segments:True"));
    assert_false(
        alloc_conf_with_choice("a:1", false, out, sizeof "a:1,expandable_segments:True" - 1));
}

#define STEPS "large_segment_size_mb:12,expandable_segments:True"

static void steps_are_smaller_where_pytorch_has_that(void **state) {
    static const char step[] = STEPS;
    char out[128];
    (void)state;
    assert_true(alloc_conf_with_choice("", true, out, sizeof out));
    assert_string_equal(out, step);
    assert_true(alloc_conf_with_choice("", true, out, sizeof step + 1));
    assert_false(alloc_conf_with_choice("a:1", true, out, sizeof step + 3));
    assert_true(alloc_conf_with_choice("large_segment_size_mb:40", true, out, sizeof out));
    assert_string_equal(out, "large_segment_size_mb:40,expandable_segments:True");
    assert_false(alloc_conf_with_choice("expandable_segments:True", true, out, sizeof out));
}

static void steps_go_by_the_release(void **state) {
    static const struct {
        const char *version;
        bool step;
    } releases[] = {
        {"2.10.0+cu128", false},
        {"2.11.0.dev20260101+cu130", false},
        {"2.11.0a0+git1234", false},
        {"2.11.0+cu130", true},
        {"2.11.1", true},
        {"2.12.0a0+git1234", true},
        {"2.15.0+cu132", true},
        {"2.9.1+cu128", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        struct alloc_conf conf;
        char line[64];
        snprintf(line, sizeof line, "__version__ = '%s'\n", releases[i].version);
        write_version(line);
        alloc_conf_apply("auto", NULL, &conf); /* in what the one before has left: a child */
        assert_string_equal(conf.value, releases[i].step ? STEPS : "expandable_segments:True");
        assert_string_equal(getenv(OLD_NAME), conf.value);
    }
    setenv(OLD_NAME, "max_split_size_mb:64", 1);
    setenv(NEW_NAME, "max_split_size_mb:64", 1);
    write_version("__version__ = '2.15.0'\n");
    struct alloc_conf conf;
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(getenv(NEW_NAME), STEPS);
    write_version("__version__ = '2.9.1'\n"); /* it would end with an error at the step's name */
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(getenv(OLD_NAME), "expandable_segments:True");
    assert_string_equal(getenv(NEW_NAME), "expandable_segments:True");
}

static void nobody_chose(void **state) {
    struct alloc_conf conf;
    (void)state;
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.value, "expandable_segments:True");
    assert_string_equal(conf.torch, "2.9.1+cu128");
    assert_string_equal(getenv(OLD_NAME), "expandable_segments:True");
    assert_null(getenv(NEW_NAME));
    alloc_conf_apply("auto", NULL, &conf); /* the program started itself again */
    assert_string_equal(conf.value, "expandable_segments:True");
    assert_string_equal(conf.why, "chosen by vramgc: none was set");
    setenv(OLD_NAME, "expandable_segments:False", 1); /* and its parent chose something else */
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.why, "the program's choice");
}

static void nobody_chose_expandable_segments(void **state) {
    static const char *const names[] = {OLD_NAME, NEW_NAME};
    static const char added[] = "garbage_collection_threshold:0.80,expandable_segments:True";
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct alloc_conf conf;
        setenv(names[i], "garbage_collection_threshold:0.80,max_split_size_mb:512", 1);
        alloc_conf_apply("auto", NULL, &conf);
        assert_string_equal(conf.value, added);
        assert_string_equal(getenv(names[i]), added);
        assert_string_equal(getenv(OLD_NAME), added); /* PyTorch 2.9 reads no other */
        assert_non_null(strstr(conf.why, "in the place of max_split_size_mb"));
        alloc_conf_apply("auto", NULL, &conf); /* the program started itself again */
        assert_string_equal(getenv(OLD_NAME), added);
        assert_non_null(strstr(conf.why, "in the place of max_split_size_mb"));
        unsetenv(OLD_NAME);
        setenv(names[i], "garbage_collection_threshold:0.80", 1);
        alloc_conf_apply("auto", NULL, &conf);
        assert_string_equal(conf.value, added);
        assert_non_null(strstr(conf.why, "vramgc added expandable_segments:True"));
        unsetenv(OLD_NAME);
        unsetenv(NEW_NAME);
    }
}

static void a_pair_that_does_not_go_together(void **state) {
    struct alloc_conf conf;
    (void)state;
    setenv(OLD_NAME, "max_split_size_mb:512,expandable_segments:True", 1);
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.value, "expandable_segments:True");
    assert_non_null(strstr(conf.why, "vramgc took max_split_size_mb out"));
    setenv(OLD_NAME, "max_split_size_mb:512,expandable_segments:True", 1);
    alloc_conf_apply("keep", NULL, &conf);
    assert_string_equal(conf.value, "max_split_size_mb:512,expandable_segments:True");
}

/* SD.Next sets both names; PyTorch's CUDA part reads the old one first, others the new one. */
static void under_both_names(void **state) {
    struct alloc_conf conf;
    (void)state;
    setenv(OLD_NAME, "max_split_size_mb:64", 1);
    setenv(NEW_NAME, "max_split_size_mb:512,roundup_power2_divisions:4", 1);
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.value, "expandable_segments:True");
    assert_string_equal(getenv(OLD_NAME), "expandable_segments:True");
    assert_string_equal(getenv(NEW_NAME), "roundup_power2_divisions:4,expandable_segments:True");
    setenv(OLD_NAME, "expandable_segments:False", 1); /* by the parent of another process */
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(getenv(NEW_NAME), "max_split_size_mb:512,roundup_power2_divisions:4");
    setenv(NEW_NAME, "max_split_size_mb:512", 1);
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.value, "expandable_segments:False");
    assert_string_equal(conf.why, "the program's choice");
    assert_string_equal(getenv(OLD_NAME), "expandable_segments:False");
    assert_string_equal(getenv(NEW_NAME), "max_split_size_mb:512");
}

static void left_alone(const char *why) {
    struct alloc_conf conf;
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.value, "");
    assert_non_null(strstr(conf.why, why));
    assert_null(getenv(OLD_NAME));
    assert_null(getenv(MARK));
}

static void is_now(const char *name, const char *value) {
    const char *now = getenv(name);
    assert_int_equal(now != NULL, value != NULL);
    if (value)
        assert_string_equal(now, value);
}

/* A process decides for its children only where the choice holds there as well. */
static void a_child_decides_anew(void **state) {
    static const struct {
        const char *old, *new;
    } given[] = {
        {NULL, NULL},
        {"", NULL},
        {"max_split_size_mb:512", NULL},
        {NULL, "max_split_size_mb:512"},
        {"max_split_size_mb:64", "max_split_size_mb:512"},
        {"garbage_collection_threshold:0.80", "expandable_segments:False"},
    };
    static const char *const wishes[] = {"auto", "keep"};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof given / sizeof *given; i++) {
        struct alloc_conf conf;
        const char *old = given[i / 2].old, *new = given[i / 2].new;
        (void)(old ? setenv(OLD_NAME, old, 1) : unsetenv(OLD_NAME));
        (void)(new ? setenv(NEW_NAME, new, 1) : unsetenv(NEW_NAME));
        self.aimdo = false;
        alloc_conf_apply("auto", NULL, &conf);
        self.aimdo = i % 2 == 0;
        alloc_conf_apply(wishes[i % 2], NULL, &conf);
        assert_string_equal(conf.value, old ? old : new ? new : "");
        is_now(OLD_NAME, old);
        is_now(NEW_NAME, new);
        for (size_t k = 0; k < sizeof left_for_others / sizeof *left_for_others; k++)
            assert_null(getenv(left_for_others[k]));
    }
}

static void left_alone_where_not_known_to_be_sound(void **state) {
    struct alloc_conf conf;
    (void)state;
    self.aimdo = true;
    left_alone("DynamicVRAM");
    self.aimdo = false;
    write_version("__version__ = '2.13.0+cu130'\n");
    left_alone("known to be sound");
    write_version("__version__ = '2.16.0'\n");
    left_alone("known to be sound");
    write_version("nothing\n");
    left_alone("not known");
    self.library[0] = 0;
    left_alone("not known");
    alloc_conf_apply("auto", "a device cannot map memory page by page", &conf);
    assert_non_null(strstr(conf.why, "cannot map"));
    assert_null(getenv(OLD_NAME));
    setenv(OLD_NAME, "max_split_size_mb:512", 1); /* the same holds for what somebody has chosen */
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.value, "max_split_size_mb:512");
    assert_string_equal(conf.why, "the program's choice");
    assert_string_equal(getenv(OLD_NAME), "max_split_size_mb:512");
}

static void the_program_wins(void **state) {
    static const char *const names[] = {OLD_NAME, NEW_NAME};
    static const char *const settings[] = {"max_split_size_mb:512,expandable_segments:False",
                                           "backend:cudaMallocAsync", "expandable_segments:True"};
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct alloc_conf conf;
        setenv(names[i % 2], settings[i / 2], 1);
        alloc_conf_apply("auto", NULL, &conf);
        assert_string_equal(conf.value, settings[i / 2]);
        assert_string_equal(conf.why, "the program's choice");
        assert_string_equal(getenv(names[i % 2]), settings[i / 2]);
        assert_null(getenv(names[!(i % 2)]));
        unsetenv(names[i % 2]);
    }
}

static void an_empty_choice_is_a_choice(void **state) {
    struct alloc_conf conf;
    (void)state;
    setenv(OLD_NAME, "", 1);
    alloc_conf_apply("auto", NULL, &conf);
    assert_string_equal(conf.value, "");
    assert_string_equal(getenv(OLD_NAME), "");
}

static void keep(void **state) {
    struct alloc_conf conf;
    (void)state;
    alloc_conf_apply("keep", NULL, &conf);
    assert_string_equal(conf.value, "");
    assert_null(getenv(OLD_NAME));
    setenv(OLD_NAME, "max_split_size_mb:512", 1);
    alloc_conf_apply("keep", NULL, &conf);
    assert_string_equal(conf.value, "max_split_size_mb:512");
    assert_string_equal(getenv(OLD_NAME), "max_split_size_mb:512");
}

static void a_setting_of_ones_own(void **state) {
    struct alloc_conf conf;
    (void)state;
    setenv(OLD_NAME, "max_split_size_mb:512", 1);
    alloc_conf_apply("roundup_power2_divisions:4,expandable_segments:True", NULL, &conf);
    assert_string_equal(getenv(OLD_NAME), "roundup_power2_divisions:4,expandable_segments:True");
    assert_string_equal(conf.why, "VRAMGC_ALLOC_CONF");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void short_addresses(void **state) {
    (void)state;
    struct rlimit before, limit;
    struct alloc_conf conf;
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 46;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    alloc_conf_apply("auto", NULL, &conf);
    setrlimit(RLIMIT_AS, &before);
    assert_null(getenv(OLD_NAME));
    assert_non_null(strstr(conf.why, "ulimit -v"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(sound_versions),
        TEST(reads_versions),
        TEST(refuses_what_is_no_version),
        TEST(what_a_setting_says),
        TEST(what_a_setting_becomes),
        TEST(steps_are_smaller_where_pytorch_has_that),
        TEST(steps_go_by_the_release),
        TEST(nobody_chose),
        TEST(nobody_chose_expandable_segments),
        TEST(a_pair_that_does_not_go_together),
        TEST(under_both_names),
        TEST(a_child_decides_anew),
        TEST(left_alone_where_not_known_to_be_sound),
        TEST(short_addresses),
        TEST(the_program_wins),
        TEST(an_empty_choice_is_a_choice),
        TEST(keep),
        TEST(a_setting_of_ones_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
