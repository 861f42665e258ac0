/* runfiles.c: see runfiles.h. */
#include "read/runfiles.h"
#include "base/control_group.h"
#include "read/complain.h"
#include "read/stats_file.h"

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct found {
    char *path;
    struct stats_peek peek;
};

char *runfiles_absolute(const char *pattern) {
    if (*pattern == '/' || !*pattern)
        return strdup(pattern);
    char *folder = getcwd(NULL, 0);
    char *absolute = folder ? malloc(2 * strlen(folder) + strlen(pattern) + 2) : NULL;
    if (absolute) {
        char *to = absolute;
        for (const char *c = folder; *c; c++) {
            if (*c == '%') /* in a pattern, a percent sign is written twice */
                *to++ = '%';
            *to++ = *c;
        }
        if (to == absolute || to[-1] != '/')
            *to++ = '/';
        memcpy(to, pattern, strlen(pattern) + 1);
    }
    free(folder);
    return absolute;
}

char *runfiles_glob(const char *pattern) {
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

static int by_start(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return x->peek.started_ns < y->peek.started_ns ? -1 : x->peek.started_ns > y->peek.started_ns;
}

/* The files of the run among the names that fit; *found is to be freed, its paths are the glob's.
 */
static size_t choose(const glob_t *names, const char *run_id, struct found **found) {
    size_t count = 0;
    *found = calloc(names->gl_pathc + 1, sizeof **found);
    for (size_t i = 0; *found && i < names->gl_pathc; i++) {
        struct found *here = &(*found)[count];
        here->path = names->gl_pathv[i];
        count += stats_file_peek(here->path, &here->peek) && strcmp(here->peek.run_id, run_id) == 0;
    }
    if (*found)
        qsort(*found, count, sizeof **found, by_start);
    return count;
}

/* First the status, then the word that says that it is there. */
static void write_status(const char *path, int status) {
    int64_t end_status = status;
    uint64_t end = VRAMGC_END_STATUS;
    int file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return; /* the process changed its rights; the record then says less */
    if (pwrite(file, &end_status, sizeof end_status, offsetof(struct vramgc_file, end_status)) ==
            (ssize_t)sizeof end_status &&
        pwrite(file, &end, sizeof end, offsetof(struct vramgc_file, end)) != (ssize_t)sizeof end)
        complain("%s cannot be written", path);
    close(file);
}

/* A program that is killed cannot count that; the launcher is in the same control group, mostly. */
static void write_lack(const char *path, const struct control_group *group) {
    struct vramgc_host host;
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file >= 0 &&
        pread(file, &host, sizeof host, offsetof(struct vramgc_file, host)) ==
            (ssize_t)sizeof host &&
        host.counts_kills == 1 && group->counts_kills && group->id == host.group_id) {
        uint64_t lack = group->oom_kills != host.oom_kills ? VRAMGC_LACK_KILLED : VRAMGC_LACK_NONE;
        if (pwrite(file, &lack, sizeof lack, offsetof(struct vramgc_file, host.lack)) !=
            (ssize_t)sizeof lack)
            complain("%s cannot be written", path);
    }
    if (file >= 0)
        close(file);
}

static void write_lack_of(const struct found *found, size_t count) {
    struct control_group group = control_group_read("");
    for (size_t i = 0; i < count; i++)
        if (found[i].peek.end == VRAMGC_END_UNKNOWN &&
            !process_lives(found[i].peek.pid, found[i].peek.process_start))
            write_lack(found[i].path, &group);
}

static void write_status_of(const struct found *found, size_t count, uint64_t child, int status) {
    for (size_t i = count; i-- > 0;)
        if (found[i].peek.pid == child) {
            write_status(found[i].path, status);
            return;
        }
}

static void load(struct runfiles *files, const struct found *found, size_t count) {
    char error[256];
    files->records = calloc(count, sizeof(struct stats_file *));
    for (size_t i = 0; files->records && i < count; i++) {
        struct stats_file *record = stats_file_load(found[i].path, error, sizeof error);
        if (record)
            files->records[files->count++] = record;
        else
            complain("%s: %s", found[i].path, error);
    }
    stats_files_relate(files->records, files->count);
}

struct runfiles runfiles_find(const char *pattern, const char *run_id, uint64_t child, int status) {
    struct runfiles files = {0};
    struct found *found = NULL;
    glob_t names = {0};
    char *shape = runfiles_glob(pattern);
    if (shape && *pattern && glob(shape, GLOB_NOSORT, NULL, &names) == 0) {
        size_t count = choose(&names, run_id, &found);
        write_status_of(found, count, child, status);
        write_lack_of(found, count);
        if (count > 0)
            load(&files, found, count);
    }
    globfree(&names);
    free(found);
    free(shape);
    return files;
}

static bool any_lives(const struct runfiles *files) {
    for (size_t i = 0; i < files->count; i++)
        if (stats_file_process_lives(files->records[i]))
            return true;
    return false;
}

bool runfiles_await_end(const struct runfiles *files) {
    enum { STEP_NS = 20000000, MOST_STEPS = 100 };
    const struct timespec step = {.tv_nsec = STEP_NS};
    int steps = 0;
    for (; steps < MOST_STEPS && any_lives(files); steps++)
        nanosleep(&step, NULL);
    return steps > 0;
}

void runfiles_free(struct runfiles *files) {
    for (size_t i = 0; i < files->count; i++)
        stats_file_free(files->records[i]);
    free(files->records);
    *files = (struct runfiles){0};
}
