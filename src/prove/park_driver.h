/* park_driver.h: the driver's own means to take a process off the card and put it back
 * (cuCheckpointProcess..., driver 570 and newer), for any process of the same user; and a row of
 * `vramgc prove` for it, which mode compact does not rely on, and VRAMGC_PARK does. */
#pragma once

#include <stdint.h>

#include "prove/child.h"

/* As CUprocessState. */
enum park_state { PARK_RUNS, PARK_LOCKED, PARK_PARKED, PARK_FAILED, PARK_UNKNOWN };

/* Loads the driver and initialises it; no context is made. NULL, or why it cannot be used. */
const char *park_driver_open(void);

/* The worst that `vramgc prove` has found of a card that the driver shows. */
enum park_proof park_proof(void);

/* Why VRAMGC_PARK parks nothing, for a driver that fails would take a program with it that nobody
 * looks after. NULL: it does. */
const char *park_objection(enum park_proof proof);

/* PARK_UNKNOWN: the process does not use CUDA, or is another user's. */
enum park_state park_state_of(uint64_t pid);

/* Each returns NULL, or the driver's word for why not. park_lock waits so long for calls that are
 * under way: if they do not end the process runs on. */
const char *park_lock(uint64_t pid, unsigned timeout_ms);
const char *park_checkpoint(uint64_t pid);
const char *park_restore(uint64_t pid);
const char *park_unlock(uint64_t pid);

/* The row: the process comes back as it was. Left out where the driver has no such calls. */
void park_trial_run(int device, struct findings *findings, child_tell *tell);
