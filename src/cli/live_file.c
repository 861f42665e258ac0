/* live_file.c: see live_file.h. It must not open any other file, nor that of a program that has
 * ended. */
#include "cli/live_file.h"

#include "base/base.h"
#include "base/parse.h"
#include "base/ring.h"
#include "base/text.h"
#include "cli/cli.h"
#include "read/stats_file.h"
#include "read/running.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL with errno. A pipe or a link, which another user may have put there, is not opened. */
struct vramgc_file *live_file_map(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    void *mapped = MAP_FAILED;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        (uint64_t)status.st_size == sizeof(struct vramgc_file))
        mapped = mmap(NULL, sizeof(struct vramgc_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    else
        errno = EINVAL;
    int error = errno;
    close(fd);
    errno = error;
    return mapped == MAP_FAILED ? NULL : mapped;
}

static bool is_of(const struct vramgc_file *file, const struct vramgc_file *record) {
    return memcmp(file->magic, VRAMGC_MAGIC, sizeof file->magic) == 0 &&
           file->process_start == record->process_start && file->pid == record->pid &&
           file->started_ns == record->started_ns && file->end == VRAMGC_END_UNKNOWN;
}

struct vramgc_file *live_file_find(uint64_t pid) {
    struct stats_file *record = running_with_mapping(pid);
    struct vramgc_file *file = record ? live_file_map(record->path) : NULL;
    if (file && !is_of(file, record->file)) {
        live_file_close(file);
        file = NULL;
    }
    stats_file_free(record);
    return file;
}

uint64_t live_file_pid(const char *name) {
    struct running running = running_find();
    uint64_t found = 0, count = 0;
    char words[PROGRAM_BYTES];
    for (size_t i = 0; i < running.count; i++)
        if (program_is_called(running.list[i].record->file, name))
            found = running.list[i].pid, count++;
    if (count != 1)
        complain(count ? "%s is the name of several programs under vramgc; give the number of one:"
                       : "no program under vramgc is called %s; `vramgc top` shows them",
                 name);
    for (size_t i = 0; count > 1 && i < running.count; i++) {
        struct text text = TEXT_IN(words);
        program_describe(running.list[i].record->file, &text);
        if (program_is_called(running.list[i].record->file, name))
            complain("%llu  %s", (unsigned long long)running.list[i].pid, words);
    }
    running_free(&running);
    return count == 1 ? found : 0;
}

RING_BEGINS_RIGHT(vramgc_mark);

/* No signal may end this process in between: the entry would stay incomplete. */
void live_file_mark(struct vramgc_file *file, const char *label) {
    struct vramgc_mark mark = {.time_ns = minus_u64(clock_ns(), file->started_ns)};
    sigset_t all, before;
    text_copy(mark.label, sizeof mark.label, label);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    ring_put(&RING(file, marks), &mark);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

struct vramgc_file *live_file_open(const char *who) {
    uint64_t pid = 0;
    if (!parse_count(who, &pid) && !(pid = live_file_pid(who)))
        return NULL;
    struct vramgc_file *file = live_file_find(pid);
    if (!file)
        complain("process %llu does not run under vramgc, or its statistics file is not yours to "
                 "write; `vramgc top` shows those that do",
                 (unsigned long long)pid);
    return file;
}

void live_file_close(struct vramgc_file *file) {
    if (file)
        munmap(file, sizeof *file);
}
