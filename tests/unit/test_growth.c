/* test_growth.c: what is growth, and what is not: live memory as programs make it, from the block
 * events to the judgement. */
#include "unit.h"

#include "cli/cause.h"
#include "track/growth.h"

#include <string.h>

static struct {
    struct growth growth;
    struct vramgc_device device;
    uint64_t live_bytes;
} self;

static void start(uint64_t card_bytes) {
    memset(&self, 0, sizeof self);
    self.device.total_bytes = card_bytes;
}

static void take(uint64_t bytes) {
    self.live_bytes += bytes;
    growth_note(&self.growth, &self.device.floors, self.live_bytes, self.device.total_bytes);
}

static void give(uint64_t bytes) {
    self.live_bytes -= bytes;
    growth_note(&self.growth, &self.device.floors, self.live_bytes, self.device.total_bytes);
}

/* Parameters of a model, and none of them goes. */
static void load(uint64_t bytes) {
    for (uint64_t i = 0; i < 64; i++)
        take(bytes / 64);
}

/* A denoised image, which goes; `kept` stays. */
static void job(uint64_t kept) {
    for (uint64_t step = 0; step < 3; step++) {
        take(300 * MIB);
        take(200 * MIB);
        give(200 * MIB);
        give(300 * MIB);
    }
    take(kept);
}

static bool grows(void) {
    return growth_of(&self.device, self.device.floors.turns).grows;
}

static void what_each_job_keeps_is_growth(void **state) {
    (void)state;
    start(8 * GIB);
    load(2 * GIB);
    for (int i = 0; i < 40; i++)
        job(32 * MIB);
    assert_true(grows());
    assert_in_range(growth_of(&self.device, self.device.floors.turns).latest_bytes, 3100 * MIB,
                    3400 * MIB);
}

static void jobs_that_keep_nothing_are_none(void **state) {
    (void)state;
    start(8 * GIB);
    load(2 * GIB);
    for (int i = 0; i < 40; i++)
        job(0);
    assert_false(grows());
}

static void a_model_that_is_loaded_is_none(void **state) {
    (void)state;
    start(24 * GIB);
    for (int i = 0; i < 20; i++)
        load(GIB);
    assert_false(grows());
    assert_int_equal(self.device.floors.turns, 0);
}

static void models_that_come_one_by_one_are_none(void **state) {
    (void)state;
    start(8 * GIB);
    load(2 * GIB);
    for (int i = 0; i < 60; i++) {
        job(0);
        if (i == 25)
            load(GIB);
    }
    assert_false(grows());
}

/* A layer of a text encoder of which the graph stays: what goes at a time is less than
 * what makes a floor. */
static void encode_with_graph(uint64_t layers) {
    for (uint64_t i = 0; i < layers; i++) {
        take(32 * MIB);
        take(64 * MIB);
        give(32 * MIB);
        take(32 * MIB);
        take(64 * MIB);
        give(64 * MIB);
        take(16 * MIB);
    }
}

static void graphs_that_stay_are_growth(void **state) {
    (void)state;
    for (uint64_t gib = 24; gib <= 80; gib += 8) {
        start(gib * GIB);
        load(11 * GIB);
        encode_with_graph((gib - 12) * 8);
        assert_true(grows());
    }
}

/* Floors of the first job of Stable Diffusion 1.5 at 1024x1024, batch 16, up to the out-of-memory
 * on a card of 6 GiB, in MiB: what the UNet keeps for its second half. */
static void the_rise_within_one_job_is_none(void **state) {
    static const uint64_t of_sd15[] = {2033, 2033, 2033, 2033, 2035, 2035, 2035, 2688,
                                       2688, 2688, 2688, 2688, 2688, 2688, 3008, 3328,
                                       3648, 4608, 3648, 3968, 4288, 4611, 3968, 3968};
    (void)state;
    start(6 * GIB);
    for (size_t i = 0; i < sizeof of_sd15 / sizeof *of_sd15; i++) {
        take(3 * GIB);
        give(self.live_bytes - of_sd15[i] * MIB);
    }
    take(320 * MIB);
    assert_int_equal(self.device.floors.turns, 24);
    assert_false(grows());
}

/* A program that was out of memory goes on, or ends: what grew before is what filled the card. */
static void what_goes_after_is_no_part_of_it(void **state) {
    (void)state;
    start(8 * GIB);
    load(2 * GIB);
    for (int i = 0; i < 40; i++)
        job(32 * MIB);
    uint64_t turns = self.device.floors.turns;
    give(self.live_bytes);
    for (int i = 0; i < 40; i++)
        job(0);
    assert_true(growth_of(&self.device, turns).grows);
    assert_false(grows());
}

/* Two floors become one, the lower, again and again; none is lost. */
static void a_long_run_fits(void **state) {
    (void)state;
    start(8 * GIB);
    load(2 * GIB);
    for (int i = 0; i < 5000; i++)
        job(MIB / 2);
    assert_true(grows());
    assert_in_range(self.device.floors.count, VRAMGC_MAX_FLOORS / 2, VRAMGC_MAX_FLOORS);
    assert_in_range(self.device.floors.merged * self.device.floors.count, self.device.floors.turns,
                    self.device.floors.turns + self.device.floors.merged);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_each_job_keeps_is_growth),
        cmocka_unit_test(jobs_that_keep_nothing_are_none),
        cmocka_unit_test(a_model_that_is_loaded_is_none),
        cmocka_unit_test(models_that_come_one_by_one_are_none),
        cmocka_unit_test(graphs_that_stay_are_growth),
        cmocka_unit_test(the_rise_within_one_job_is_none),
        cmocka_unit_test(what_goes_after_is_no_part_of_it),
        cmocka_unit_test(a_long_run_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
