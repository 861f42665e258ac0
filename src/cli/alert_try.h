/* alert_try.h: whether the commands of VRAMGC_ON do what they should, before anything happens. */
#pragma once

#include "judge/alert.h"

#include <signal.h>

/* Runs each once, with a sample, waits for it or *stopped, and says how it ended. */
void alert_try(const struct alert_rules *rules, const volatile sig_atomic_t *stopped);
