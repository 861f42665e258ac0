/* test_growth.c: what is growth, and what is not: live memory as programs make it, from the block
 * events to the judgement. */
#include "unit.h"

#include "judge/cause.h"
#include "judge/growers.h"
#include "track/owners.h"

#include <string.h>

static struct {
    struct growth growth;
    struct vramgc_file file;
    struct stats_file record;
    uint64_t live_bytes;
} self;

static struct vramgc_device *const device = &self.file.devices[0];

static void start(uint64_t card_bytes) {
    memset(&self, 0, sizeof self);
    self.record.file = &self.file;
    device->total_bytes = card_bytes;
}

static void take(uint64_t bytes) {
    self.live_bytes += bytes;
    growth_note(&self.growth, &device->floors, self.live_bytes, device->total_bytes);
}

static void give(uint64_t bytes) {
    self.live_bytes -= bytes;
    growth_note(&self.growth, &device->floors, self.live_bytes, device->total_bytes);
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
    return growth_of(&self.record, device).grows;
}

static void what_each_job_keeps_is_growth(void **state) {
    (void)state;
    start(8 * GIB);
    load(2 * GIB);
    for (int i = 0; i < 40; i++)
        job(32 * MIB);
    assert_true(grows());
    assert_in_range(growth_of(&self.record, device).latest_bytes, 3100 * MIB, 3400 * MIB);
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
    assert_int_equal(device->floors.turns, 0);
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
    assert_int_equal(device->floors.turns, 24);
    assert_false(grows());
}

static void site(uint32_t index, const char *function, const char *file, const char *phase,
                 uint64_t grown_bytes) {
    struct vramgc_site *site = &self.file.sites[index];
    struct vramgc_owners *grown = &device->owners_grown;
    strcpy(site->function, function);
    strcpy(site->file, file);
    strcpy(site->phase, phase);
    site->line = 7;
    grown->live_bytes += grown_bytes;
    grown->list[grown->count++] = (struct vramgc_owner){.site = index, .bytes = grown_bytes};
}

/* A whole weight comes, and what it becomes in eight bits stays. */
static void load_in_8_bits(const char *phase) {
    start(8 * GIB);
    for (int i = 0; i < 40; i++) {
        take(200 * MIB);
        take(100 * MIB);
        give(200 * MIB);
    }
    site(0, "quantize", "nn/modules.py", phase, 600 * MIB);
    site(1, "to", "models/modeling.py", phase, 500 * MIB);
}

static void a_model_that_is_loaded_layer_by_layer_is_none(void **state) {
    (void)state;
    load_in_8_bits("text encode");
    assert_true(grows());
    load_in_8_bits("model move");
    assert_false(grows());
    load_in_8_bits("LoRA");
    assert_false(grows());
}

static void models_that_stay_after_each_job_are_growth(void **state) {
    (void)state;
    static struct vramgc_job jobs[24];
    load_in_8_bits("model move");
    for (size_t i = 0; i < ARRAY_LENGTH(jobs); i++) {
        jobs[i] = (struct vramgc_job){.live_bytes = i * 64 * MIB};
        self.record.jobs[i] = &jobs[i];
    }
    self.record.job_count = ARRAY_LENGTH(jobs);
    assert_true(grows());
    jobs[23].device = jobs[22].device = UINT64_MAX; /* a damaged file */
    assert_true(grows());
    for (size_t i = 0; i < ARRAY_LENGTH(jobs); i++)
        jobs[i].live_bytes = 4 * GIB;
    assert_false(grows());
}

/* Each second job brings a model that stays: uneven floors, of few turns. */
static void models_that_come_now_and_then_are_growth(void **state) {
    (void)state;
    static struct vramgc_job jobs[10];
    start(8 * GIB);
    load(2 * GIB);
    for (size_t i = 0; i < ARRAY_LENGTH(jobs); i++) {
        job(i % 2 ? 700 * MIB : 0);
        jobs[i] = (struct vramgc_job){.live_bytes = self.live_bytes};
        self.record.jobs[i] = &jobs[i];
    }
    assert_false(grows());
    self.record.job_count = ARRAY_LENGTH(jobs);
    assert_true(grows());
    self.record.state = PROCESS_EXITED; /* the last ends with the program: nothing is left */
    self.record.elapsed_ns = 10 * SECOND_NS;
    jobs[9] = (struct vramgc_job){.live_bytes = 0, .time_ns = 10 * SECOND_NS};
    assert_true(grows());
}

static const char *said(void) {
    static char words[200];
    struct text text = TEXT_IN(words);
    growth_say(&text, &self.file, device, &(struct oom_growth){.latest_bytes = 6 * GIB});
    return words + strlen("+6.0 GiB, to 6.0 GiB");
}

/* The function, else what several have in common, else nobody. */
static void most_of_what_grows_has_a_name(void **state) {
    (void)state;
    start(8 * GIB);
    assert_string_equal(said(), "");
    site(0, "encode_prompt", "sd/pipeline.py", "text encode", GIB);
    assert_string_equal(said(), "; most comes from encode_prompt (pipeline.py:7), text encode");
    site(1, "forward", "clip/modeling.py", "text encode", GIB);
    assert_string_equal(said(), "; most comes from text encode");
    site(2, "mlp", "clip/modeling.py", "", GIB);
    site(3, "norm", "clip/modeling.py", "", GIB);
    assert_string_equal(said(), "; most comes from modeling.py");
    site(4, "decode", "sd/vae.py", "VAE", 4 * GIB);
    assert_string_equal(said(), "");
    memset(&device->owners_grown, 0, sizeof device->owners_grown);
    device->owners_grown.live_bytes = 9 * GIB;
    site(5, "loss", "train.py", "", GIB / 4);
    assert_string_equal(said(), "");
}

/* A program that was out of memory goes on, or ends: what grew before is what filled the card. */
static void what_goes_after_is_no_part_of_it(void **state) {
    (void)state;
    start(8 * GIB);
    load(2 * GIB);
    for (int i = 0; i < 40; i++)
        job(32 * MIB);
    uint64_t turns = device->floors.turns;
    give(self.live_bytes);
    for (int i = 0; i < 40; i++)
        job(0);
    assert_true(growth_until(&self.record, device, turns, UINT64_MAX).grows);
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
    assert_in_range(device->floors.count, VRAMGC_MAX_FLOORS / 2, VRAMGC_MAX_FLOORS);
    assert_in_range(device->floors.merged * device->floors.count, device->floors.turns,
                    device->floors.turns + device->floors.merged);
}

/* What it makes are weights. */
static void who_merges_a_lora_piles_up_none(void **state) {
    (void)state;
    assert_true(site_is_lora(&(struct vramgc_site){.function = "apply_lora"}));
    assert_true(site_is_lora(&(struct vramgc_site){.file = "k/lora.py"}));
    assert_false(site_is_lora(&(struct vramgc_site){.function = "_merge_lora"}));
    assert_false(site_is_lora(&(struct vramgc_site){.function = "fuse_lora_weights"}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_each_job_keeps_is_growth),
        cmocka_unit_test(jobs_that_keep_nothing_are_none),
        cmocka_unit_test(a_model_that_is_loaded_is_none),
        cmocka_unit_test(models_that_come_one_by_one_are_none),
        cmocka_unit_test(a_model_that_is_loaded_layer_by_layer_is_none),
        cmocka_unit_test(models_that_stay_after_each_job_are_growth),
        cmocka_unit_test(models_that_come_now_and_then_are_growth),
        cmocka_unit_test(most_of_what_grows_has_a_name),
        cmocka_unit_test(graphs_that_stay_are_growth),
        cmocka_unit_test(the_rise_within_one_job_is_none),
        cmocka_unit_test(what_goes_after_is_no_part_of_it),
        cmocka_unit_test(a_long_run_fits),
        cmocka_unit_test(who_merges_a_lora_piles_up_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
