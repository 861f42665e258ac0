/* runfiles.c: see runfiles.h. */
#include "read/runfiles.h"
#include "base/base.h"
#include "base/control_group.h"
#include "read/complain.h"
#include "read/kept.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static void write_lack_of(const struct kept_file *found, size_t count) {
    struct control_group group = control_group_read("");
    for (size_t i = 0; i < count; i++)
        if (found[i].peek.end == VRAMGC_END_UNKNOWN &&
            !process_lives(found[i].peek.pid, found[i].peek.process_start))
            write_lack(found[i].path, &group);
}

/* A shell between passes on which signal ended its program, as 128 + signal, or by ending itself by
 * the same, as at Ctrl-C. Which program that was it does not: the last that a signal ended. */
static void write_status_of(const struct kept_file *found, size_t count, uint64_t child,
                            int status) {
    int passed_on = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    const struct kept_file *told = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct stats_peek *peek = &found[i].peek;
        if (peek->pid == child ||
            (passed_on > 0 && (!told || told->peek.pid != child) &&
             peek->end == VRAMGC_END_UNKNOWN && !process_lives(peek->pid, peek->process_start)))
            told = &found[i];
    }
    if (told)
        write_status(told->path, told->peek.pid == child ? status : passed_on);
}

struct records runfiles_find(const char *pattern, const char *run_id, uint64_t child, int status) {
    struct kept kept = *pattern ? kept_find_as(pattern) : (struct kept){0};
    size_t count = choose_run(&kept, run_id);
    write_status_of(kept.files, count, child, status);
    write_lack_of(kept.files, count);
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
    enum { STEP_NS = 20000000, MOST_STEPS = 100 }; /* as long as the library waits at its end */
    const struct timespec step = {.tv_nsec = STEP_NS};
    int steps = 0;
    for (; steps < MOST_STEPS && any_lives(records); steps++)
        nanosleep(&step, NULL);
    return steps > 0;
}
