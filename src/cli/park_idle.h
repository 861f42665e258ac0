/* park_idle.h: VRAMGC_PARK: a program that has not used the card for so long leaves it, and comes
 * back when it asks for something. Done from beside, by what the program writes into its statistics
 * file before each call: nothing of it is in the program. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* rest_ns 0: nothing is ever done. */
void park_idle_begin(uint64_t rest_ns);

/* To be called for each program that runs; path, which must stay, is its statistics file. */
void park_idle_look(const char *path);

/* False once that one has ended: then it is to be forgotten. */
bool park_idle_lives(const char *path);
void park_idle_forget(const char *path);

/* Nobody looks any more: what is parked comes back. */
void park_idle_end(void);

/* How long until the next look; no longer than step_ns. A program that is parked waits for it. */
uint64_t park_idle_step_ns(uint64_t step_ns);
