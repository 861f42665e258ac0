/* live_file.c: see live_file.h, and the commands that store into such a file beside the program:
 * `vramgc mark` a point on its timeline, `vramgc set` its limits, which it reads at each request
 * (card/reading.h). They must not open any other file, nor that of a program that has ended, nor
 * store what is no amount. */
#include "cli/live_file.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/options.h"
#include "base/parse.h"
#include "base/ring.h"
#include "base/text.h"
#include "cli/cli.h"
#include "judge/who.h"
#include "read/derived.h"
#include "read/stats_file.h"
#include "read/running.h"
#include "read/units.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
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

struct vramgc_file *live_file_find(uint64_t pid) {
    struct stats_file *record = running_with_mapping(pid);
    struct vramgc_file *file = record ? live_file_map(record->path) : NULL;
    if (file &&
        (memcmp(file->magic, VRAMGC_MAGIC, sizeof file->magic) != 0 ||
         file->process_start != record->file->process_start || file->pid != record->file->pid ||
         file->end != VRAMGC_END_UNKNOWN || file->started_ns != record->file->started_ns)) {
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
            complain("%lu  %s", running.list[i].pid, words);
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

static struct vramgc_file *live_file_open(const char *who) {
    uint64_t pid = 0;
    if (!parse_count(who, &pid) && !(pid = live_file_pid(who)))
        return NULL;
    struct vramgc_file *file = live_file_find(pid);
    if (!file)
        complain("process %lu does not run under vramgc, or its statistics file is not yours to "
                 "write; `vramgc top` shows those that do",
                 pid);
    return file;
}

void live_file_close(struct vramgc_file *file) {
    if (file)
        munmap(file, sizeof *file);
}

/* ---- vramgc mark ---- */

static int mark_main(struct args *args) {
    struct vramgc_file *file = live_file_open(args->argv[0]);
    if (!file)
        return STATUS_BAD_INPUT;
    live_file_mark(file, args->argv[1]);
    live_file_close(file);
    return STATUS_FINE;
}

const struct command mark_command = {
    "mark",
    GROUP_RUNNING,
    "PID|NAME LABEL",
    "put a label on a program's timeline",
    "NAME: main.py, its script, or ComfyUI, the folder of that; where several are called so they "
    "are listed, and nothing is done. As the program itself does with vramgc_mark(): the report "
    "has a row for it, and an M in the graph. `vramgc top` shows the numbers. Of LABEL 47 bytes "
    "are kept. Exit status 1 when there is no such program under vramgc, 2 for a wrong call.\n",
    .least = 2,
    .most = 2,
    .lacking = "one program, and one label, in quotes if it has spaces:",
    .main = mark_main,
};

/* ---- vramgc set ---- */

/* NULL: it cannot be set while a program runs. */
static uint64_t *limit_of(struct vramgc_limits *limits, const char *name) {
    return strcmp(name, "headroom") == 0 ? &limits->headroom
           : strcmp(name, "cap") == 0    ? &limits->cap
                                         : NULL;
}

/* NAME=VALUE. */
static bool take_limit(const char *typed, struct vramgc_limits *limits) {
    char name[32] = "", sentence[256];
    const char *value = strchr(typed, '=');
    if (value && (size_t)(value - typed) < sizeof name)
        memcpy(name, typed, (size_t)(value - typed));
    const struct option_info *info = settings_find(name);
    struct options options;
    if (!info || !limit_of(limits, name)) {
        complain("%s: what can be set while a program runs is headroom=SIZE and cap=SIZE", typed);
        return false;
    }
    if (!option_set(info, value + 1, &options)) {
        option_refusal(info, typed, value + 1, sentence, sizeof sentence);
        complain("%s", sentence);
        return false;
    }
    *limit_of(limits, name) = *(const uint64_t *)((const char *)&options + info->offset);
    return true;
}

/* A name may fit another program than was meant, and what is live stays until it is freed. */
static void tell_limits(const struct vramgc_file *file) {
    TEXT_OVER(text, words, PROGRAM_BYTES + 256);
    program_describe(file, &text);
    text_format(&text, " (%lu): ", file->pid);
    if (!shared_card_say_limits(&text, &file->limits))
        text_add(&text, "no head-room, no cap");
    clean_text(words, sizeof words); /* the file is the program's own */
    printf("%s; it holds %s now\n", words, show_bytes(ON_ALL_CARDS(file, held_bytes.current)).text);
}

static int set_main(struct args *args) {
    struct vramgc_limits limits = {UINT64_MAX, UINT64_MAX}; /* left alone */
    for (int i = 1; i < args->operand_count; i++)
        if (!take_limit(args->argv[i], &limits))
            return STATUS_USAGE;
    struct vramgc_file *file = live_file_open(args->argv[0]);
    if (!file)
        return STATUS_BAD_INPUT;
    if (limits.headroom != UINT64_MAX)
        __atomic_store_n(&file->limits.headroom, limits.headroom, __ATOMIC_RELAXED);
    if (limits.cap != UINT64_MAX)
        __atomic_store_n(&file->limits.cap, limits.cap, __ATOMIC_RELAXED);
    tell_limits(file);
    live_file_close(file);
    return STATUS_FINE;
}

const struct command set_command = {
    "set",
    GROUP_RUNNING,
    "PID|NAME headroom=SIZE|cap=SIZE...",
    "change how much of the card a program gets, or leaves to others",
    "NAME: as of `vramgc mark`. SIZE: 2GiB, or 10% of the card; 0 ends it. It holds for the next "
    "request of the program at once; memory that lies idle goes back within a second, live memory "
    "when the program frees it. VRAMGC_HEADROOM and VRAMGC_CAP set the same at the start. Exit "
    "status 1 when there is no such program under vramgc, 2 for a wrong call.\n",
    .least = 2,
    .lacking = "which program, and what?",
    .main = set_main,
};
