/* standard_policy.h: the settings that the tests of policy.h begin with. The device has 100 GiB, so
 * that one GiB is one percent. */
#ifndef STANDARD_POLICY_H
#define STANDARD_POLICY_H

#include "unit.h"

#include "policy/policy.h"

#define SECOND UINT64_C(1000000000)
#define TOTAL  (100 * GIB)

static const struct policy_settings standard = {
    .mode = POLICY_ACT,
    .threshold_percent = 80,
    .hysteresis_percent = 5,
    .cooldown_ns = SECOND,
    .idle_most_ns = SECOND,
    .min_gain_bytes = 32 * MIB,
    .quiet_ns = SECOND / 20,
};

#endif
