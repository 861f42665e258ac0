/* records.h: the statistics files where they lie without anybody naming them, by the pattern of
 * VRAMGC_OUT, else in the state folder; those that a command was given, or means when it was given
 * none; and those of one run, with the end that only the parent of a process can know. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/stats_file.h"
#include "base/options.h"

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

/* How many of them, from the first on, belong to the newest run: its processes, or one process
 * without `vramgc run`. They are put first. */
size_t kept_newest_run(struct kept *kept);

/* Removes from the state folder what is too old or too much by the settings, and no process's that
 * runs. Runs that went wrong are counted apart. */
void kept_prune(const struct options *options);

/* ---- those of a command ---- */

struct records {
    struct stats_file **list;
    size_t count;
    bool lately;   /* what runs, and what has ended lately */
    bool complete; /* false: a file could not be read, which was complained about */
};

/* Loads what can be loaded and complains about the rest; without paths, the newest run that is
 * kept. A path at which nothing is may be a pid, or a file's name, of what is kept. To be given
 * back. */
struct records records_load(char *const *paths, size_t count);

/* hint: said of a path at which nothing is. */
#define RECORDS_HINT "; `vramgc list` shows what is kept"
struct records records_load_or_hint(char *const *paths, size_t count, const char *hint);

/* Without paths, all processes that run now, and those that have ended within five minutes. */
struct records records_load_running(char *const *paths, size_t count);

/* The first so many of what is kept. */
struct records records_load_kept(const struct kept *kept, size_t count);

void records_free(struct records *records);

/* ---- of one run ---- */

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
