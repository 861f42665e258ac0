/* records.c: see records.h. A file that cannot be read must not keep the others from being told; it
 * removes nothing but statistics files of this user, and what vramgc has put beside them, in
 * vramgc's own folder. */
#include "read/records.h"
#include "read/complain.h"
#include "base/standards.h"
#include "base/control_group.h"
#include "base/state_folder.h"
#include "base/text.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- where they lie ---- */

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

/* How long ago its process was last known to run. */
static uint64_t kept_age_ns(const struct stats_peek *peek) {
    uint64_t ended_ns = peek->started_unix_ns + minus_u64(peek->latest_ns, peek->started_ns);
    return minus_u64(clock_read_ns(CLOCK_REALTIME), ended_ns);
}

/* One that is not seen to live may run in another container, or on a machine with the same home. */
static bool may_remove(const struct stats_peek *peek) {
    const uint64_t day_ns = 24 * 3600 * SECOND_NS;
    return !peek_lives(peek) && (peek->end != VRAMGC_END_UNKNOWN || kept_age_ns(peek) >= day_ns);
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
    remove_beside(path, "blocks");
    remove_beside(path, "whatif");
    for (int i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        snprintf(map, sizeof map, "oom%d", i);
        remove_beside(path, map);
    }
    unlink(path);
}

void kept_prune(const struct options *options) {
    if (!options->keep)
        return;
    struct kept kept = find_in_folders();
    size_t counts[2] = {0}; /* an out-of-memory is not pushed out by runs that went well */
    for (size_t i = 0; i < kept.count; i++) {
        const struct kept_file *file = &kept.files[i];
        bool surplus = counts[file->peek.went_wrong]++ >= options->keep;
        bool is_old = kept_age_ns(&file->peek) > KEEP_FOR_NS;
        if ((surplus || is_old) && may_remove(&file->peek) && is_mine(file->path))
            remove_with_all(file->path);
    }
    kept_free(&kept);
}

/* ---- those of a command ---- */

/* As `vramgc list` shows it: by its pid, or the name of its file. Where several had the pid, the
 * newest. To be freed; NULL: none is kept. */
static char *kept_path(const char *name) {
    struct kept kept = kept_find();
    char *path = NULL;
    for (size_t i = 0; i < kept.count && !path; i++) {
        char pid[24];
        snprintf(pid, sizeof pid, "%lu", kept.files[i].peek.pid);
        if (strcmp(name, pid) == 0 || strcmp(name, text_after_folder(kept.files[i].path)) == 0)
            path = strdup(kept.files[i].path);
    }
    kept_free(&kept);
    return path;
}

/* A file that is there has the name; else what is kept. */
static void load_one(struct records *records, const char *name, const char *hint) {
    char error[256];
    bool there = access(name, F_OK) == 0;
    char *kept = there ? NULL : kept_path(name);
    struct stats_file *record = stats_file_load(kept ? kept : name, error, sizeof error);
    if (record)
        records->list[records->count++] = record;
    else
        complain("%s: %s%s", name, error, there ? "" : hint);
    free(kept);
}

static struct records load_records(char *const *paths, size_t count, const char *hint) {
    struct records records = {.list = calloc(count + 1, sizeof *records.list)};
    if (!records.list) {
        complain("no memory");
        return records;
    }
    for (size_t i = 0; i < count; i++)
        load_one(&records, paths[i], hint);
    stats_files_relate(records.list, records.count);
    records.complete = records.count == count;
    return records;
}

struct records records_load_kept(const struct kept *kept, size_t count) {
    char **paths = calloc(count + 1, sizeof *paths);
    for (size_t i = 0; paths && i < count; i++)
        paths[i] = kept->files[i].path;
    struct records records = load_records(paths, paths ? count : 0, "");
    free(paths);
    return records;
}

struct records records_load(char *const *paths, size_t count) {
    return records_load_or_hint(paths, count, RECORDS_HINT);
}

struct records records_load_or_hint(char *const *paths, size_t count, const char *hint) {
    if (count > 0)
        return load_records(paths, count, hint);
    struct kept kept = kept_find();
    struct records records = records_load_kept(&kept, kept_newest_run(&kept));
    if (kept.count == 0) {
        complain("no statistics file is kept; `vramgc run` makes one, or name one");
        records.complete = false;
    }
    kept_free(&kept);
    return records;
}

/* Prometheus takes a sample for that of now for so long (--query.lookback-delta): whoever collects
 * less often has gaps all the same. */
#define LATELY_NS (300 * SECOND_NS)

struct records records_load_running(char *const *paths, size_t count) {
    if (count > 0)
        return load_records(paths, count, RECORDS_HINT);
    struct kept kept = kept_find();
    struct kept running = {.files = calloc(kept.count + 1, sizeof *running.files)};
    for (size_t i = 0; running.files && i < kept.count; i++)
        if (peek_lives(&kept.files[i].peek) || kept_age_ns(&kept.files[i].peek) < LATELY_NS)
            running.files[running.count++] = kept.files[i];
    struct records records = records_load_kept(&running, running.count);
    records.lately = true;
    free(running.files);
    kept_free(&kept);
    return records;
}

void records_free(struct records *records) {
    for (size_t i = 0; i < records->count; i++)
        stats_file_free(records->list[i]);
    free(records->list);
    *records = (struct records){0};
}

/* ---- of one run ---- */

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

static int by_start(const void *a, const void *b) {
    const struct kept_file *x = a, *y = b;
    return x->peek.started_ns < y->peek.started_ns ? -1 : x->peek.started_ns > y->peek.started_ns;
}

/* The files of the run, in the order of their start, come first; how many they are. */
static size_t choose_run(struct kept *kept, const char *run_id) {
    size_t count = 0;
    for (size_t i = 0; i < kept->count; i++)
        if (strcmp(kept->files[i].peek.run_id, run_id) == 0) {
            struct kept_file other = kept->files[count];
            kept->files[count++] = kept->files[i];
            kept->files[i] = other;
        }
    if (count > 0)
        qsort(kept->files, count, sizeof *kept->files, by_start);
    return count;
}

/* False: the process changed its rights, or the disk is full; the record then says less. */
static bool write_word(const char *path, size_t offset, uint64_t word) {
    int file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return false;
    bool fine = pwrite(file, &word, sizeof word, (off_t)offset) == (ssize_t)sizeof word;
    close(file);
    if (!fine)
        complain("%s cannot be written", path);
    return fine;
}

/* First the status, then the word that says that it is there. Who is killed cannot say when. */
static void write_status(const char *path, int status) {
    if (WIFSIGNALED(status))
        write_word(path, offsetof(struct vramgc_file, latest_ns), clock_ns());
    if (write_word(path, offsetof(struct vramgc_file, end_status), (uint64_t)(int64_t)status))
        write_word(path, offsetof(struct vramgc_file, end), VRAMGC_END_STATUS);
}

/* A program that is killed cannot count that; the launcher is in the same control group, mostly. */
static void write_lack(const char *path, const struct control_group *group) {
    struct vramgc_host host;
    const size_t at = offsetof(struct vramgc_file, host);
    if (stats_file_read_part(path, at, &host, sizeof host) && host.counts_kills == 1 &&
        group->counts_kills && group->id == host.group_id)
        write_word(path, offsetof(struct vramgc_file, host.lack),
                   group->oom_kills != host.oom_kills ? VRAMGC_LACK_KILLED : VRAMGC_LACK_NONE);
}

/* A shell between passes on which signal ended its program, as 128 + signal, or by ending itself by
 * the same, as at Ctrl-C. Which program that was it does not: the last that a signal ended. */
static void write_status_of(const struct kept_file *found, size_t count, uint64_t child,
                            int status) {
    int passed_on = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    const struct kept_file *told = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct stats_peek *peek = &found[i].peek;
        if (peek->pid == child || (passed_on > 0 && (!told || told->peek.pid != child) &&
                                   peek->end == VRAMGC_END_UNKNOWN && !peek_lives(peek)))
            told = &found[i];
    }
    if (told)
        write_status(told->path, told->peek.pid == child ? status : passed_on);
}

struct records runfiles_find(const char *pattern, const char *run_id, uint64_t child, int status) {
    struct kept kept = *pattern ? kept_find_as(pattern) : (struct kept){0};
    size_t count = choose_run(&kept, run_id);
    write_status_of(kept.files, count, child, status);
    struct control_group group = control_group_read("");
    for (size_t i = 0; i < count; i++)
        if (kept.files[i].peek.end == VRAMGC_END_UNKNOWN && !peek_lives(&kept.files[i].peek))
            write_lack(kept.files[i].path, &group);
    struct records records = records_load_kept(&kept, count);
    kept_free(&kept);
    return records;
}

void runfiles_stop_asked(const char *pattern, const char *run_id) {
    struct kept kept = *pattern ? kept_find_as(pattern) : (struct kept){0};
    size_t count = choose_run(&kept, run_id);
    for (size_t i = 0; i < count; i++)
        write_word(kept.files[i].path, offsetof(struct vramgc_file, stop_asked), 1);
    kept_free(&kept);
}

static bool any_lives(const struct records *records) {
    for (size_t i = 0; i < records->count; i++)
        if (stats_file_process_lives(records->list[i]))
            return true;
    return false;
}

bool runfiles_await_end(const struct records *records) {
    enum { STEP_MS = 20, MOST_STEPS = 100 }; /* as long as the library waits at its end */
    int steps = 0;
    for (; steps < MOST_STEPS && any_lives(records); steps++)
        sleep_ns(STEP_MS * MILLISECOND_NS);
    return steps > 0;
}
