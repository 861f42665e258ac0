/* mark.c: the command `vramgc mark`: a named point on the timeline of a program that runs. It
 * writes into that program's statistics file as the program itself does, beside it: the entries are
 * made for several writers (base/ring.h). It must not write into any other file, nor into that of a
 * program that has ended. */
#include "cli/cli.h"
#include "read/running.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/ring.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

RING_BEGINS_RIGHT(vramgc_mark);

/* NULL with errno. A pipe or a link, which another user may have put there, is not opened. */
static struct vramgc_file *map(const char *path) {
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

/* No signal may end this process in between: the entry would stay incomplete. */
static void put(struct vramgc_file *file, const char *label) {
    struct vramgc_mark mark = {.time_ns = minus_u64(clock_ns(), file->started_ns)};
    sigset_t all, before;
    text_copy(mark.label, sizeof mark.label, label);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    ring_put(&RING(file, marks), &mark);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static bool is_of(const struct vramgc_file *file, const struct vramgc_file *record) {
    return memcmp(file->magic, VRAMGC_MAGIC, sizeof file->magic) == 0 &&
           file->process_start == record->process_start && file->pid == record->pid &&
           file->started_ns == record->started_ns && file->end == VRAMGC_END_UNKNOWN;
}

static int mark(uint64_t pid, const char *label) {
    struct stats_file *record = running_with_mapping(pid);
    if (!record) {
        complain("process %llu does not run under vramgc, or is not yours; `vramgc top` shows "
                 "those that do",
                 (unsigned long long)pid);
        return STATUS_BAD_INPUT;
    }
    struct vramgc_file *file = map(record->path);
    int error = errno;
    bool fine = file && is_of(file, record->file);
    if (fine)
        put(file, label);
    else
        complain("%s: %s", record->path, file ? "is another program's by now" : strerror(error));
    if (file)
        munmap(file, sizeof *file);
    stats_file_free(record);
    return fine ? STATUS_FINE : STATUS_BAD_INPUT;
}

static bool has_name(const struct vramgc_file *file, const char *name) {
    return strcasestr(file->executable, name) || strcasestr(file->command_line, name) ||
           strcasestr(file->working_folder, name);
}

/* The only program that the name fits; 0 after a complaint that says which there are. */
static uint64_t find_by_name(const char *name) {
    char numbers[256];
    struct text text = TEXT_IN(numbers);
    struct running running = running_find();
    uint64_t found = 0, count = 0;
    for (size_t i = 0; i < running.count; i++) {
        if (!has_name(running.list[i].record->file, name))
            continue;
        found = running.list[i].pid;
        text_format(&text, "%s%llu", count++ ? ", " : "", (unsigned long long)found);
    }
    running_free(&running);
    if (count > 1)
        complain("%s is the name of %llu programs that run under vramgc: %s; give the number", name,
                 (unsigned long long)count, numbers);
    else if (count == 0)
        complain("no program that runs under vramgc has %s in its name, folder or arguments; "
                 "`vramgc top` shows them",
                 name);
    return count == 1 ? found : 0;
}

static int mark_main(struct args *args) {
    const char *name = args->argv[0], *label = args->argv[1];
    uint64_t pid = 0;
    if (args->operand_count != 2 || !*label) {
        complain("which program, and which label? vramgc mark PID|NAME LABEL");
        return STATUS_USAGE;
    }
    if (!*name) {
        complain("the name of the program is empty; vramgc mark PID|NAME LABEL");
        return STATUS_USAGE;
    }
    if (!parse_count(name, &pid) && !(pid = find_by_name(name)))
        return STATUS_BAD_INPUT;
    return mark(pid, label);
}

const struct command mark_command = {
    "mark",
    "PID|NAME LABEL",
    "put a label on the timeline of a program that runs",
    "NAME: a word of its name, folder or arguments that no other program under vramgc has. As the "
    "program itself does with vramgc_mark(): the report has a row for it, and an M in the "
    "graph. `vramgc top` shows the numbers. Of LABEL 47 bytes are kept. Exit status 1 when there "
    "is no such program under vramgc, 2 for a wrong call.\n",
    .main = mark_main,
};
