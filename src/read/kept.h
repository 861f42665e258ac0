/* kept.h: the statistics files where they lie without anybody naming them: by the pattern of
 * VRAMGC_OUT, else in the state folder. */
#pragma once

#include <stddef.h>

#include "base/options.h"
#include "read/stats_file.h"

struct kept_file {
    char *path;
    struct stats_peek peek;
};

/* Newest first. */
struct kept {
    struct kept_file *files;
    size_t count;
};

struct kept kept_find(void);
struct kept kept_find_as(const char *pattern); /* of VRAMGC_OUT */
void kept_free(struct kept *kept);

/* How long ago its process was last known to run. */
uint64_t kept_age_ns(const struct stats_peek *peek);

/* How many of them, from the first on, belong to the newest run: its processes, or one process
 * without `vramgc run`. They are put first. */
size_t kept_newest_run(struct kept *kept);

/* Removes from the state folder what is too old or too much by the settings, and no process's that
 * runs. Runs that went wrong are counted apart. */
void kept_prune(const struct options *options);
