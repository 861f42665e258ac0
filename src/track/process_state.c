/* process_state.c: see process_state.h. It must not read the settings before CUDA is used. Who
 * parks is another process, which may be killed at any step: it must not be believed for longer
 * than it lives. */
#include "track/process_state.h"

#include "base/log.h"
#include "base/process_stat.h"
#include "card/reading.h"
#include "store/store.h"
#include "track/device.h"

#include <stdlib.h>

static struct {
    bool read;
    struct options options;
    enum option_origin origins[VRAMGC_MAX_SETTINGS];
    size_t complaints;
} self;

const struct options *settings_options(void) {
    return &self.options;
}

struct policy_settings settings_policy(void) {
    const struct options *options = &self.options;
    struct policy_settings settings = {
        .mode = options->mode == MODE_OFF       ? POLICY_OFF
                : options->mode == MODE_OBSERVE ? POLICY_OBSERVE
                                                : POLICY_FLUSH,
        .threshold_percent = options->threshold,
        .hysteresis_percent = options->hysteresis,
        .cooldown_ns = options->cooldown,
        .min_gain_bytes = options->min_gain,
        .quiet_ns = options->rest,
        .lowvram = options->lowvram,
    };
    return settings;
}

static void complain(const char *sentence, void *context) {
    (void)context;
    LOG(LOG_WARN, "%s", sentence);
}

void settings_complain(void) {
    log_open((enum option_log)self.options.log, self.options.log_file);
    if (self.complaints && !getenv("VRAMGC_RUN_ID")) /* else the launcher has said it */
        options_read(&self.options, self.origins, complain, NULL);
}

/* Complaints wait until recording begins: this may be a process that only asks for a device. */
void settings_read(void) {
    if (self.read)
        return;
    self.complaints = options_read(&self.options, self.origins, NULL, NULL);
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
    parked_question_begins();
    if (!is_answered(free_bytes, total_bytes))
        return false;
    parked_question_ends();
    return true;
}

void parked_info_ends(size_t free_bytes) {
    struct device *device = free_bytes && recording_is_on() ? device_current() : NULL;
    if (device)
        atomic_store(&device->memory.told_bytes, free_bytes);
    parked_question_ends();
}
