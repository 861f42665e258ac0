/* prove_card.h: whether a card with its driver bears the page engine, found out and written down.
 * Part of the command. */
#pragma once

#include "prove/with_torch.h"

/* Exit statuses, the worst last. Not run: no driver, no device, or it is busy. */
enum { PROVE_PASSED = 0, PROVE_FAILED = 1, PROVE_NOT_RUN = 3 };

/* What is told while it runs. */
struct prove_telling {
    void (*begin)(int device, const struct card *card); /* before anything is taken */
    child_tell *row;
    void (*end)(const char *path); /* of the proof */
    void (*not_tried)(const char *why, bool others_use_it);
};

/* Devices as the driver numbers them; device -1: all. version: of vramgc, for the proof. */
int prove_run(int device, const char *version, const struct python *python,
              const struct prove_telling *telling);
