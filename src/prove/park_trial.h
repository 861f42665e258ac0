/* park_trial.h: whether the driver takes a process off the card and puts it back as it was: a row
 * of `vramgc prove` that mode compact does not rely on, and `VRAMGC_PARK` does. */
#pragma once

#include "prove/child.h"

/* Left out where the driver has no such calls. */
void park_trial_run(int device, struct findings *findings, child_tell *tell);
