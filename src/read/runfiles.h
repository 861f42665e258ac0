/* runfiles.h: the statistics files of one run: where they will be, which they are, and the end
 * status that only the parent of a process can know. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/records.h"

/* VRAMGC_OUT as an absolute pattern from the working directory, to be freed; NULL without memory or
 * working directory. */
char *runfiles_absolute(const char *pattern);

/* Finds and loads the files made with the pattern that carry run_id, in the order of their start.
 * When child is not 0, its wait status is written into the latest file of that process first. */
struct records runfiles_find(const char *pattern, const char *run_id, uint64_t child, int status);

/* Writes into the same files that the program was told to stop. */
void runfiles_stop_asked(const char *pattern, const char *run_id);

/* Waits until the processes of all files have ended, but two seconds at most. True: some had not,
 * and what was loaded may be old. */
bool runfiles_await_end(const struct records *records);
