/* process_settings.c: see process_settings.h. It must not read them before CUDA is used. */
#include "track/process_settings.h"

#include "base/log.h"
#include "card/reading.h"
#include "store/store.h"
#include "track/device.h"
#include "track/recording.h"

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
