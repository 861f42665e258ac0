/* test_mode.c: every row of the table that chooses the mode: which mode, and the words why. */
#include "unit.h"

#include "cuda/objects.h"
#include "govern/mode_table.h"

#include <string.h>

/* torch.c asks where PyTorch is; here nobody does. */
bool objects_path(const char *stem, unsigned nth, char *path, size_t capacity) {
    (void)stem;
    (void)nth;
    (void)path;
    (void)capacity;
    return false;
}

/* A machine on which the page engine is known to work. */
static struct mode_facts good(enum option_mode wish) {
    return (struct mode_facts){.wish = wish,
                               .torch = "2.15.0+cu132",
                               .alloc_conf = "max_split_size_mb:512",
                               .driver = 13010,
                               .driver_version = "",
                               .proof = PROOF_PASSED,
                               .interposer = "",
                               .unproven = "",
                               .maps = true};
}

static void expect(const struct mode_facts *facts, enum option_mode mode, const char *why) {
    struct mode_choice choice = mode_choose(facts);
    assert_string_equal(choice.why, why);
    assert_string_equal(mode_name(choice.mode), mode_name(mode));
    assert_int_equal(choice.driver_pool, strstr(why, "cudaMallocAsync, whose pool") != NULL);
    assert_int_equal(choice.needs_proof, strstr(why, "run `vramgc prove`") != NULL);
}

static void asked_for(void **state) {
    static const enum option_mode modes[] = {MODE_OFF, MODE_OBSERVE, MODE_FLUSH, MODE_COMPACT};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct mode_facts facts = good(modes[i]);
        expect(&facts, modes[i], "asked for (--mode, or VRAMGC_MODE)");
        facts = (struct mode_facts){.wish = modes[i],
                                    .torch = "",
                                    .alloc_conf = "",
                                    .interposer = "libvgpu.so",
                                    .unproven = "",
                                    .wsl = true};
        expect(&facts, modes[i],
               "asked for (--mode, or VRAMGC_MODE)"); /* whatever the machine is like */
    }
}

static void compact_asked_for(void **state) {
    struct mode_facts facts = good(MODE_COMPACT);
    (void)state;
    facts.passed = 1 << 1;
    expect(&facts, MODE_COMPACT, "asked for (--mode, or VRAMGC_MODE); self-test passed on gpu1");
    facts.failed = 1 << 0;
    expect(&facts, MODE_COMPACT,
           "asked for (--mode, or VRAMGC_MODE); self-test passed on gpu1, failed on gpu0: mode "
           "flush there");
    facts.passed = 0;
    expect(&facts, MODE_FLUSH,
           "VRAMGC_MODE=compact, but the self-test of mapping pages failed on gpu0");
    facts.failed = 0;
    facts.alloc_conf = "max_split_size_mb:512,backend:cudaMallocAsync";
    expect(&facts, MODE_COMPACT,
           "asked for (--mode, or VRAMGC_MODE); but PyTorch uses cudaMallocAsync, whose pool is "
           "trimmed as in "
           "flush");
    facts.own_pool = true;
    expect(&facts, MODE_COMPACT,
           "asked for (--mode, or VRAMGC_MODE); vramgc's own pool serves cudaMallocAsync");
}

static void automatic_where_all_is_known(void **state) {
    static const char *const versions[] = {"2.0.1", "2.5.1+cu124", "2.9.0a0+git123", "2.15.1"};
    struct mode_facts facts = good(MODE_AUTO);
    (void)state;
    expect(&facts, MODE_COMPACT, "PyTorch 2.15.0+cu132, driver 590, not self-tested yet");
    facts.passed = 1;
    expect(&facts, MODE_COMPACT, "PyTorch 2.15.0+cu132, driver 590, self-test passed on gpu0");
    facts.passed = 1 << 0 | 1 << 2 | 1 << 3;
    expect(&facts, MODE_COMPACT, "PyTorch 2.15.0+cu132, driver 590, self-test passed on gpu0,2,3");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        facts.torch = versions[i];
        facts.alloc_conf = i % 2 ? "" : "expandable_segments:True";
        assert_int_equal(mode_choose(&facts).mode, MODE_COMPACT);
    }
}

/* Each of these alone is enough to choose flush. */
static void automatic_where_something_is_not(void **state) {
    struct mode_facts facts;
    (void)state;
#define FLUSH(what, words)                                                                         \
    facts = good(MODE_AUTO);                                                                       \
    facts.what;                                                                                    \
    expect(&facts, MODE_FLUSH, words)
    FLUSH(wsl = true, "under WSL mapping memory fails with many drivers");
    FLUSH(addresses_limited = true, "addresses are limited (ulimit -v), and compact takes more");
    FLUSH(maps = false, "a device cannot map memory page by page");
    FLUSH(driver = 0, "driver of unknown version is not known to map memory page by page");
    FLUSH(driver = 10020, "driver for CUDA 10.2 is not known to map memory page by page");
    FLUSH(torch = "", "PyTorch's version is not known");
    FLUSH(torch = "nonsense", "PyTorch's version is not known");
    FLUSH(torch = "1.13.1+cu117", "PyTorch 1.13.1+cu117 is older than what was tried");
    FLUSH(alloc_conf = "backend:cudaMallocAsync",
          "PyTorch uses cudaMallocAsync, whose pool is trimmed");
    struct mode_facts own_pool = good(MODE_AUTO);
    own_pool.alloc_conf = "backend:cudaMallocAsync";
    own_pool.own_pool = true;
    expect(&own_pool, MODE_COMPACT,
           "PyTorch 2.15.0+cu132, driver 590, not self-tested yet; vramgc's own pool serves "
           "cudaMallocAsync");
    FLUSH(
        aimdo = true,
        "ComfyUI's DynamicVRAM (comfy-aimdo) frees memory only for requests that reach the driver");
    FLUSH(interposer = "libvgpu.so",
          "libvgpu.so answers for the driver, but not for cuMemCreate: compact would go round it");
    struct mode_facts both = good(MODE_AUTO); /* a pool of our own would change nothing */
    both.alloc_conf = "backend:cudaMallocAsync";
    both.aimdo = true;
    expect(
        &both, MODE_FLUSH,
        "ComfyUI's DynamicVRAM (comfy-aimdo) frees memory only for requests that reach the driver");
    FLUSH(failed = 1 << 5, "the self-test of mapping pages failed on gpu5");
#undef FLUSH
}

static void automatic_without_a_proof(void **state) {
    static const enum proof_state states[] = {PROOF_NONE, PROOF_OTHER, PROOF_FAILED};
    static const char *const words[] = {
        "compact is not tested yet on gpu0,1: run `vramgc prove`, a minute",
        "the proof of gpu0,1 is of another driver or vramgc: run `vramgc prove`, a minute",
        "`vramgc prove` found that gpu0,1 does not support compact"};
    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        struct mode_facts facts = good(MODE_AUTO);
        facts.proof = states[i];
        facts.least_proven = 3;
        facts.passed = 1; /* the self-test at the first segment is no proof */
        expect(&facts, MODE_FLUSH, words[i]);
        facts.wish = MODE_COMPACT;
        assert_int_equal(mode_choose(&facts).mode, MODE_COMPACT);
    }
    struct mode_facts pool = good(MODE_AUTO);
    pool.proof = PROOF_NONE;
    pool.least_proven = 1;
    pool.alloc_conf = "backend:cudaMallocAsync";
    expect(&pool, MODE_FLUSH,
           "PyTorch uses cudaMallocAsync, whose pool is trimmed; gpu0 has no proof: run `vramgc "
           "prove`, a minute");
    pool.unproven = "process 7 uses 900 MiB of the card";
    struct mode_choice choice = mode_choose(&pool);
    assert_string_equal(choice.why, "PyTorch uses cudaMallocAsync, whose pool is trimmed; gpu0 has "
                                    "no proof: process 7 uses 900 MiB of the card");
    assert_true(choice.needs_proof);
    pool.torch = ""; /* what a proof would not change is said first */
    expect(&pool, MODE_FLUSH, "PyTorch's version is not known");
}

/* In mode flush, with a PyTorch that was tried, and where nobody stands between it and the driver.
 */
static void steps_are_kept(void **state) {
    struct mode_facts facts = good(MODE_AUTO);
    (void)state;
    assert_false(mode_choose(&facts).keeps_steps); /* compact */
    facts.proof = PROOF_NONE;
    assert_true(mode_choose(&facts).keeps_steps);
    assert_true(
        mode_choose(&(struct mode_facts){
                        .wish = MODE_FLUSH, .torch = "", .alloc_conf = "", .interposer = ""})
            .keeps_steps);
    facts.torch = "";
    assert_false(mode_choose(&facts).keeps_steps);
    facts.torch = "2.99.0";
    assert_false(mode_choose(&facts).keeps_steps);
    facts.torch = "2.15.0";
    facts.wsl = true;
    assert_false(mode_choose(&facts).keeps_steps);
    facts.wsl = false;
    facts.addresses_limited = true;
    assert_false(mode_choose(&facts).keeps_steps);
    facts.addresses_limited = false;
    facts.interposer = "libvgpu.so";
    assert_false(mode_choose(&facts).keeps_steps);
    facts.interposer = "";
    facts.wish = MODE_OBSERVE;
    assert_false(mode_choose(&facts).keeps_steps);
}

static void the_drivers_own_number(void **state) {
    struct mode_facts facts = good(MODE_AUTO);
    (void)state;
    facts.driver_version = "595.45.04";
    expect(&facts, MODE_COMPACT, "PyTorch 2.15.0+cu132, driver 595.45.04, not self-tested yet");
    facts.driver = 99010; /* newer than the table */
    expect(&facts, MODE_COMPACT, "PyTorch 2.15.0+cu132, driver 595.45.04, not self-tested yet");
    facts.driver_version = "";
    expect(&facts, MODE_COMPACT, "PyTorch 2.15.0+cu132, driver for CUDA 99.1, not self-tested yet");
    assert_int_equal(driver_branch(12020), 535);
    assert_int_equal(driver_branch(12080), 570);
}

static void one_device_of_two(void **state) {
    struct mode_facts facts = good(MODE_AUTO);
    (void)state;
    facts.passed = 1;
    facts.failed = 2;
    expect(&facts, MODE_COMPACT,
           "PyTorch 2.15.0+cu132, driver 590, self-test passed on gpu0, failed on "
           "gpu1: mode "
           "flush there");
}

static void newer_than_what_was_tried(void **state) {
    static const char *const versions[] = {"2.16.0", "3.0.0"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mode_facts facts = good(MODE_AUTO);
        facts.torch = versions[i];
        assert_int_equal(mode_choose(&facts).mode, MODE_FLUSH);
        facts.events = EVENTS_DIFFER;
        assert_int_equal(mode_choose(&facts).mode, MODE_FLUSH);
        facts.events = EVENTS_FIT;
        assert_int_equal(mode_choose(&facts).mode, MODE_COMPACT);
        facts.failed = 1;
        assert_int_equal(mode_choose(&facts).mode, MODE_FLUSH);
    }
    struct mode_facts facts = good(MODE_AUTO);
    facts.torch = "2.16.0";
    expect(&facts, MODE_FLUSH,
           "PyTorch 2.16.0 is newer than 2.15: its block events are checked first");
    facts.events = EVENTS_DIFFER;
    expect(&facts, MODE_FLUSH, "PyTorch 2.16.0 is newer than 2.15, and its block events differ");
    facts.events = EVENTS_FIT;
    expect(&facts, MODE_COMPACT,
           "PyTorch 2.16.0, newer than 2.15, has known block events; driver 590; not "
           "self-tested yet");
    facts.passed = 1;
    expect(&facts, MODE_COMPACT,
           "PyTorch 2.16.0, newer than 2.15, has known block events; driver 590, "
           "self-test "
           "passed on gpu0");
}

/* What was mapped before and what is mapped page by page would lie side by side. */
static void newer_and_expandable(void **state) {
    struct mode_facts facts = good(MODE_AUTO);
    (void)state;
    facts.torch = "2.16.0";
    facts.alloc_conf = "expandable_segments:True";
    facts.events = EVENTS_FIT;
    expect(&facts, MODE_FLUSH,
           "PyTorch 2.16.0 is newer than 2.15: its expandable segments are not known");
}

/* The longest reason is not cut. */
static void fits_the_file(void **state) {
    struct mode_facts facts = good(MODE_AUTO);
    (void)state;
    facts.torch = "2.99.10a0+gitabcdef0.nv26.11";
    facts.driver_version = "580.126.20.01";
    facts.events = EVENTS_FIT;
    facts.passed = 0xff;
    assert_true(strlen(mode_choose(&facts).why) < MODE_WHY_BYTES - 1);
    facts.failed = 0xff00;
    assert_true(strlen(mode_choose(&facts).why) < MODE_WHY_BYTES - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_for),
        cmocka_unit_test(compact_asked_for),
        cmocka_unit_test(automatic_where_all_is_known),
        cmocka_unit_test(automatic_where_something_is_not),
        cmocka_unit_test(automatic_without_a_proof),
        cmocka_unit_test(steps_are_kept),
        cmocka_unit_test(the_drivers_own_number),
        cmocka_unit_test(one_device_of_two),
        cmocka_unit_test(newer_than_what_was_tried),
        cmocka_unit_test(newer_and_expandable),
        cmocka_unit_test(fits_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
