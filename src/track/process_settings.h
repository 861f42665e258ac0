/* process_settings.h: the settings of this process, read once, at the first use of CUDA. */
#pragma once

#include "base/options.h"
#include "policy/policy.h"

const struct options *settings_options(void);
struct policy_settings settings_policy(void);

/* Reads them from the environment if that was not done; recording is inert from then on where they
 * say so. One thread at a time. Complaints wait until recording begins: this may be a process that
 * only asks for a device. */
void settings_read(void);
void settings_complain(void);

/* Writes them into the statistics file. */
void settings_store(void);

/* The file has moved: the limits in it hold (cuda/limit.h). */
void settings_limit(void);
