/* process_state.c: see process_state.h. It must not read the settings before CUDA is used. Who
 * parks is another process, which may be killed at any step: it must not be believed for longer
 * than it lives. */
#include "track/process_state.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/process_stat.h"
#include "base/standards.h"
#include "card/reading.h"
#include "store/store.h"
#include "track/device.h"

#include <stdlib.h>

static struct {
    bool read;
    struct options options;
    struct standards standards;
    enum option_origin origins[VRAMGC_MAX_SETTINGS];
    size_t complaints;
} self;

const struct options *settings_options(void) {
    return &self.options;
}

const struct standards *settings_standards(void) {
    return &self.standards;
}

struct policy_settings settings_policy(void) {
    const struct options *options = &self.options;
    const struct standards *standards = &self.standards;
    struct policy_settings settings = {
        .mode = options->mode == MODE_OFF       ? POLICY_OFF
                : options->mode == MODE_OBSERVE ? POLICY_OBSERVE
                                                : POLICY_ACT,
        .threshold_percent = options->threshold,
        .hysteresis_percent = (double)standards->hysteresis_percent,
        .cooldown_ns = options->cooldown,
        .idle_most_ns = options->cooldown,
        .min_gain_bytes = standards->min_gain_bytes,
        .quiet_ns = standards->rest_ns,
        .lowvram = options->lowvram,
    };
    return settings;
}

static void warn(const char *sentence, void *context) {
    (void)context;
    LOG(LOG_WARN, "%s", sentence);
}

void settings_complain(void) {
    log_open((enum option_log)self.options.log, self.options.log_file);
    if (self.complaints && !getenv("VRAMGC_RUN_ID")) /* else the launcher has said it */
        options_read(&self.options, self.origins, warn, NULL);
}

static void read_standards(void) {
    self.standards = (struct standards){
        .rest_ns = parse_for_test("VRAMGC_TEST_REST", parse_duration, REST_NS),
        .sample_ns = parse_for_test("VRAMGC_TEST_SAMPLE", parse_duration, SAMPLE_NS),
        .min_gain_bytes = parse_for_test("VRAMGC_TEST_MIN_GAIN", parse_size, MIN_GAIN_BYTES),
        .record_bytes = parse_for_test("VRAMGC_TEST_RECORD", parse_size, RECORD_BYTES),
        .hysteresis_percent =
            parse_for_test("VRAMGC_TEST_HYSTERESIS", parse_count, HYSTERESIS_PERCENT),
    };
}

/* Complaints wait until recording begins: this may be a process that only asks for a device. */
void settings_from_environment(void) {
    if (self.read)
        return;
    self.complaints = options_read(&self.options, self.origins, NULL, NULL);
    read_standards();
    self.read = true;
    if (self.options.mode == MODE_OFF) {
        atomic_store(&recording_state, RECORDING_INERT);
    } else {
        store_file()->limits = (struct vramgc_limits){self.options.headroom, self.options.cap};
        settings_limit();
    }
}

void settings_store(void) {
    store_settings(&self.options, self.origins);
}

void settings_limit(void) {
    limit_begin(&store_file()->limits, device_own);
}

/* --- parked --- */

/* Where this thread's question is counted, from parked_info_begins to parked_info_ends. */
static THREAD_LOCAL uint64_t *asked;

bool parked_now(void) {
    uint64_t parked = figure_get(&store_file()->parked);
    return UNLIKELY(parked) && (parked == 1 || process_key_lives(parked));
}

static bool is_answered(size_t *free_bytes, size_t *total_bytes) {
    struct device *device =
        free_bytes && total_bytes && recording_is_on() && parked_now() ? device_current() : NULL;
    uint64_t total = device ? atomic_load(&device->memory.total_bytes) : 0;
    uint64_t told = device ? atomic_load(&device->memory.told_bytes) : 0;
    if (!total || !told)
        return false;
    *free_bytes = told;
    *total_bytes = total;
    return true;
}

/* The second look is for one that was parked since the first: whoever parks it sees us then. */
bool parked_info_begins(size_t *free_bytes, size_t *total_bytes) {
    if (is_answered(free_bytes, total_bytes))
        return true;
    asked = parked_question_begins();
    if (!is_answered(free_bytes, total_bytes))
        return false;
    parked_question_ends(asked);
    return true;
}

void parked_info_ends(size_t free_bytes) {
    struct device *device = free_bytes && recording_is_on() ? device_current() : NULL;
    if (device)
        atomic_store(&device->memory.told_bytes, free_bytes);
    parked_question_ends(asked);
}
