/* kept.c: see kept.h. It removes nothing but statistics files of this user, and what vramgc has put
 * beside them, in vramgc's own folder. */
#include "read/kept.h"
#include "base/base.h"
#include "base/state_folder.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int newest_first(const void *a, const void *b) {
    const struct kept_file *x = a, *y = b;
    return x->peek.started_unix_ns > y->peek.started_unix_ns   ? -1
           : x->peek.started_unix_ns < y->peek.started_unix_ns ? 1
                                                               : strcmp(x->path, y->path);
}

static struct kept peek_at_all(const glob_t *names) {
    struct kept kept = {.files = calloc(names->gl_pathc + 1, sizeof *kept.files)};
    for (size_t i = 0; kept.files && i < names->gl_pathc; i++) {
        struct kept_file *file = &kept.files[kept.count];
        if (stats_file_peek(names->gl_pathv[i], &file->peek))
            kept.count += (file->path = strdup(names->gl_pathv[i])) != NULL;
    }
    if (kept.files)
        qsort(kept.files, kept.count, sizeof *kept.files, newest_first);
    return kept;
}

/* The pattern as glob(7) reads it: what the library fills in is *, and so is the .1, .2 behind it.
 * To be freed; NULL without memory. */
static char *glob_of(const char *pattern) {
    char *result = malloc(2 * strlen(pattern) + 2);
    if (!result)
        return NULL;
    char *to = result;
    for (const char *c = pattern; *c; c++) {
        if (c[0] == '%' && c[1] && strchr("peht", c[1])) {
            *to++ = '*';
            c++;
            continue;
        }
        if (c[0] == '%' && c[1] == '%')
            c++;
        if (strchr("*?[\\", *c))
            *to++ = '\\';
        *to++ = *c;
    }
    *to++ = '*';
    *to = 0;
    return result;
}

static void add_names(glob_t *names, const char *pattern) {
    char *shape = glob_of(pattern);
    if (shape)
        glob(shape, GLOB_NOSORT | (names->gl_pathv ? GLOB_APPEND : 0), NULL, names);
    free(shape);
}

static void add_folder(glob_t *names, bool (*place)(char *, size_t)) {
    char folder[1024], pattern[2200];
    if (place(folder, sizeof folder) && state_files(folder, pattern, sizeof pattern))
        add_names(names, pattern);
}

static struct kept find_in_folders(void) {
    glob_t names = {0};
    add_folder(&names, state_folder);
    add_folder(&names, state_folder_instead);
    struct kept kept = peek_at_all(&names);
    globfree(&names);
    return kept;
}

struct kept kept_find_as(const char *pattern) {
    glob_t names = {0};
    add_names(&names, pattern);
    struct kept kept = peek_at_all(&names);
    globfree(&names);
    return kept;
}

struct kept kept_find(void) {
    const char *setting = getenv("VRAMGC_OUT");
    return setting && *setting && strcmp(setting, "auto") != 0 ? kept_find_as(setting)
                                                               : find_in_folders();
}

void kept_free(struct kept *kept) {
    for (size_t i = 0; i < kept->count; i++)
        free(kept->files[i].path);
    free(kept->files);
    *kept = (struct kept){0};
}

size_t kept_newest_run(struct kept *kept) {
    size_t together = kept->count > 0;
    for (size_t i = 1; i < kept->count && *kept->files[0].peek.run_id; i++) {
        if (strcmp(kept->files[i].peek.run_id, kept->files[0].peek.run_id) != 0)
            continue;
        struct kept_file moved = kept->files[i];
        memmove(&kept->files[together + 1], &kept->files[together], (i - together) * sizeof moved);
        kept->files[together++] = moved;
    }
    return together;
}

/* ---- what goes ---- */

static bool is_mine(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

static bool runs(const struct stats_peek *peek) {
    return process_lives(peek->pid, peek->process_start);
}

uint64_t kept_age_ns(const struct stats_peek *peek) {
    uint64_t ended_ns = peek->started_unix_ns + minus_u64(peek->latest_ns, peek->started_ns);
    return minus_u64(clock_read_ns(CLOCK_REALTIME), ended_ns);
}

/* Not seen from here, in another container or on another machine with the same home. */
static bool may_run_elsewhere(const struct stats_peek *peek) {
    const uint64_t day_ns = 24 * 3600 * SECOND_NS;
    return peek->end == VRAMGC_END_UNKNOWN && kept_age_ns(peek) < day_ns;
}

static bool may_go(const struct stats_peek *peek) {
    return !runs(peek) && !may_run_elsewhere(peek);
}

static bool is_old(const struct stats_peek *peek, uint64_t keep_ns) {
    return keep_ns > 0 && kept_age_ns(peek) > keep_ns;
}

static void remove_beside(const char *path, const char *ending) {
    char *beside = NULL;
    if (asprintf(&beside, "%s.%s", path, ending) < 0)
        return;
    unlink(beside);
    free(beside);
}

static void remove_with_all(const char *path) {
    char map[16];
    remove_beside(path, "pickle");
    remove_beside(path, "html");
    for (int i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        snprintf(map, sizeof map, "oom%d", i);
        remove_beside(path, map);
    }
    unlink(path);
}

void kept_prune(const struct options *options) {
    struct kept kept = find_in_folders();
    size_t counts[2] = {0}; /* an out-of-memory is not pushed out by runs that went well */
    for (size_t i = 0; i < kept.count; i++) {
        const struct kept_file *file = &kept.files[i];
        bool surplus = counts[file->peek.went_wrong]++ >= options->keep && options->keep > 0;
        if ((surplus || is_old(&file->peek, options->keep_for)) && may_go(&file->peek) &&
            is_mine(file->path))
            remove_with_all(file->path);
    }
    kept_free(&kept);
}
