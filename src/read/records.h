/* records.h: the statistics files that a command was given, or means when it was given none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "read/kept.h"

struct records {
    struct stats_file **list;
    size_t count;
    bool lately;   /* what runs, and what has ended lately */
    bool complete; /* false: a file could not be read, which was complained about */
};

/* Loads what can be loaded and complains about the rest; without paths, the newest run that is kept
 * (read/kept.h). A path at which nothing is may be a pid, or a file's name, of what is kept. To be
 * given back. */
struct records records_load(char *const *paths, size_t count);

/* hint: said of a path at which nothing is. */
#define RECORDS_HINT "; `vramgc list` shows what is kept"
struct records records_load_or_hint(char *const *paths, size_t count, const char *hint);

/* Without paths, all processes that run now, and those that have ended within five minutes. */
struct records records_load_running(char *const *paths, size_t count);

/* The first so many of what is kept. */
struct records records_load_kept(const struct kept *kept, size_t count);

void records_free(struct records *records);
