/* prove_card.h: whether a card with its driver bears the page engine, found out and written down.
 * Part of the command. */
#ifndef PROVE_H
#define PROVE_H

#include "prove/with_torch.h"

enum { PROVE_PASSED, PROVE_FAILED, PROVE_NOT_RUN };

/* Devices as the driver numbers them; device -1: all. version: of vramgc, for the proof. */
int prove_run(int device, const char *version, const struct python *python);

#endif
