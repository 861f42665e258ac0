/* running.c: see running.h. It reads /proc of processes that it may read, and touches none. A file
 * is believed to be a process's only when it carries that process's start time: a child keeps the
 * mapping of a parent that is gone. */
#include "read/running.h"
#include "read/records.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/process_stat.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A process and a file that may be its statistics. */
struct candidate {
    uint64_t pid;
    char *path;
};

/* How busy a process kept the processors. */
struct load {
    uint64_t pid, start_ticks, worked_ticks, time_ns;
    int percent;
};

static struct {
    struct candidate *list;
    size_t count;
    uint64_t look_again_ns;
    uint64_t strangers[RUNNING_STRANGERS];
    size_t stranger_count;
    unsigned share;
    struct load *loads; /* as running_note_load has last seen them */
    size_t load_count;
} self = {.share = 20};

#define LEAST_PAUSE_NS (SECOND_NS / 2)

static void add_candidate(uint64_t pid, const char *path) {
    for (size_t i = 0; i < self.count; i++)
        if (self.list[i].pid == pid && strcmp(self.list[i].path, path) == 0)
            return;
    struct candidate *list = realloc(self.list, (self.count + 1) * sizeof *list);
    char *copy = list ? strdup(path) : NULL;
    self.list = list ? list : self.list;
    if (copy)
        self.list[self.count++] = (struct candidate){pid, copy};
}

static bool is_that_file(const char *path, uint64_t inode) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == inode &&
           (uint64_t)status.st_size == sizeof(struct vramgc_file);
}

/* A path is what it is to that process: in a container it leads elsewhere. */
static void add_mapped(uint64_t pid, const char *path, uint64_t inode) {
    char inside[4200];
    snprintf(inside, sizeof inside, "/proc/%lu/root%s", pid, path);
    if (is_that_file(path, inode))
        add_candidate(pid, path);
    else if (is_that_file(inside, inode))
        add_candidate(pid, inside);
}

/* "7f00-7f10 rw-s 00000000 08:01 1234   /path": shared, writable, with a name. */
static void look_at_line(uint64_t pid, char *line) {
    char access[5] = "";
    unsigned long long inode = 0;
    int name = 0;
    if (!strstr(line, " rw-s "))
        return;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%*s %4s %*s %*s %llu %n", access, &inode, &name) == 2 && name > 0 &&
        strcmp(access, "rw-s") == 0 && line[name] == '/' && inode != 0)
        add_mapped(pid, line + name, inode);
}

static bool is_this_program(uint64_t pid) {
    char path[64], program[4096], own[4096];
    snprintf(path, sizeof path, "/proc/%lu/exe", pid);
    ssize_t n = readlink(path, program, sizeof program);
    return n > 0 && n == readlink("/proc/self/exe", own, sizeof own) &&
           memcmp(program, own, (size_t)n) == 0;
}

/* The command itself asks the driver, as `vramgc prove` does: this one, whatever it is called,
 * another copy of it, or one that was replaced since it was started. */
static bool is_our_code(const char *line) {
    const char *name = strrchr(line, '/');
    return strstr(line, "/libvramgc.so") ||
           (name && (strcmp(name, "/vramgc\n") == 0 || strcmp(name, "/vramgc (deleted)\n") == 0));
}

/* True: it uses CUDA, and neither the library nor the command is in it. */
static bool read_maps(uint64_t pid, void each(uint64_t pid, char *line)) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lu/maps", pid);
    FILE *maps = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    bool cuda = false, ours = is_this_program(pid);
    while (maps && getline(&line, &room, maps) > 0) {
        cuda = cuda || strstr(line, "/libcuda.so");
        ours = ours || is_our_code(line);
        if (each)
            each(pid, line);
    }
    free(line);
    if (maps)
        fclose(maps);
    return cuda && !ours;
}

/* Of one that ends, or becomes another program, meanwhile only a part was read: it is looked at
 * again. */
bool running_is_stranger(uint64_t pid) {
    return read_maps(pid, NULL) && read_maps(pid, NULL);
}

static void look_at_process(uint64_t pid) {
    if (read_maps(pid, look_at_line) && running_is_stranger(pid) &&
        self.stranger_count < RUNNING_STRANGERS)
        self.strangers[self.stranger_count++] = pid;
}

static void look_at_processes(void) {
    self.stranger_count = 0;
    DIR *list = opendir("/proc");
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (isdigit((unsigned char)*entry->d_name))
            look_at_process(strtoull(entry->d_name, NULL, 10));
    if (list)
        closedir(list);
}

/* Where no mapping is possible a file is written all the same. */
static void look_at_kept(void) {
    struct kept kept = kept_find();
    for (size_t i = 0; i < kept.count; i++) {
        const struct stats_peek *peek = &kept.files[i].peek;
        if (peek_lives(peek))
            add_candidate(peek->pid, kept.files[i].path);
    }
    kept_free(&kept);
}

static void look_for_programs(void) {
    uint64_t start_ns = clock_ns();
    if (start_ns < self.look_again_ns)
        return;
    look_at_kept();
    look_at_processes();
    uint64_t took_ns = clock_ns() - start_ns;
    self.look_again_ns = start_ns + max_u64(self.share * took_ns, LEAST_PAUSE_NS);
}

/* NULL: it is not that process's, or the process has ended. */
static struct stats_file *load_running(const struct candidate *candidate) {
    char ignored[256];
    struct stats_file *record = stats_file_load(candidate->path, ignored, sizeof ignored);
    uint64_t start = process_start_ticks(candidate->pid);
    if (record && start != 0 && record->file->process_start == start &&
        record->file->end == VRAMGC_END_UNKNOWN)
        return record;
    stats_file_free(record);
    return NULL;
}

static void forget_candidate(size_t index) {
    free(self.list[index].path);
    self.list[index] = self.list[--self.count];
}

/* The same process, found in two ways, or once more after execv: the later record counts. */
static bool replaces(struct running *running, struct running_process process) {
    for (size_t i = 0; i < running->count; i++) {
        struct running_process *known = &running->list[i];
        if (known->record->file->pid != process.record->file->pid ||
            known->record->file->process_start != process.record->file->process_start)
            continue;
        if (known->record->file->started_ns < process.record->file->started_ns) {
            struct running_process older = *known;
            *known = process;
            process = older;
        }
        stats_file_free(process.record);
        return true;
    }
    return false;
}

static int by_pid(const void *a, const void *b) {
    const struct running_process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* A word with anything in it that a shell would take for more stands in quotes. */
static void add_shell_word(struct text *text, const char *word) {
    bool plain =
        *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_./+,:=@%-") == strlen(word);
    text_format(text, "%s%s", text->length ? " " : "", plain ? "" : "'");
    for (const char *part = word; *part; part += strcspn(part, "'"), part += *part == '\'') {
        text_add_n(text, part, strcspn(part, "'"));
        text_add(text, part[strcspn(part, "'")] ? "'\\''" : "");
    }
    text_add(text, plain ? "" : "'");
}

/* False: it has ended. */
static bool read_stranger(uint64_t pid, struct running_stranger *out) {
    char path[64], words[sizeof out->command];
    struct text text = TEXT_IN(out->command);
    snprintf(path, sizeof path, "/proc/%lu/cmdline", pid);
    size_t length = file_read_start(path, words, sizeof words);
    *out = (struct running_stranger){.pid = pid};
    snprintf(path, sizeof path, "/proc/%lu/cwd", pid);
    ssize_t n = readlink(path, out->folder, sizeof out->folder - 1);
    out->folder[n > 0 ? n : 0] = 0;
    for (size_t at = 0; at < length; at += strlen(words + at) + 1)
        add_shell_word(&text, words + at);
    clean_text(out->folder, sizeof out->folder);
    clean_text(out->command, sizeof out->command);
    return length > 0;
}

struct running running_find(void) {
    look_for_programs();
    struct running running = {.list = calloc(self.count + 1, sizeof *running.list)};
    for (size_t i = 0; i < self.stranger_count; i++)
        running.stranger_count +=
            read_stranger(self.strangers[i], &running.strangers[running.stranger_count]);
    for (size_t i = self.count; running.list && i-- > 0;) {
        struct running_process process = {self.list[i].pid, load_running(&self.list[i]), -1};
        if (!process.record)
            forget_candidate(i);
        else if (!replaces(&running, process))
            running.list[running.count++] = process;
    }
    if (running.list)
        qsort(running.list, running.count, sizeof *running.list, by_pid);
    return running;
}

void running_read_device(const struct running_process *process, size_t index) {
    struct vramgc_device_stats *stats = &process->record->file->devices[index].stats, now;
    size_t at = (size_t)((char *)stats - (char *)process->record->file);
    if (stats_file_read_part(process->record->path, at, &now, sizeof now))
        *stats = now;
}

struct stats_file *running_with_mapping(uint64_t pid) {
    struct stats_file *record = NULL;
    while (self.count > 0) /* what was found in another way */
        forget_candidate(0);
    look_at_process(pid);
    for (size_t i = 0; i < self.count && !record; i++)
        record = load_running(&self.list[i]);
    return record;
}

/* Linux counts time in hundredths of a second: two looks that follow each other at once say
 * nothing. */
static const struct load *load_before(const struct load *now) {
    for (size_t i = 0; i < self.load_count; i++)
        if (self.loads[i].pid == now->pid && self.loads[i].start_ticks == now->start_ticks)
            return &self.loads[i];
    return NULL;
}

static struct load load_of(uint64_t pid) {
    struct process_stat stat = process_stat(pid);
    struct load now = {pid, stat.start_ticks, stat.worked_ticks, clock_ns(), -1};
    const struct load *then = load_before(&now);
    if (!then)
        return now;
    if (now.time_ns - then->time_ns < LEAST_PAUSE_NS)
        return *then;
    double seconds = (double)(now.time_ns - then->time_ns) / (double)SECOND_NS;
    double worked = (double)minus_u64(now.worked_ticks, then->worked_ticks);
    now.percent = (int)(100 * worked / (double)sysconf(_SC_CLK_TCK) / seconds + 0.5);
    return now;
}

void running_note_load(struct running *running) {
    struct load *list = calloc(running->count + 1, sizeof *list);
    for (size_t i = 0; list && i < running->count; i++) {
        list[i] = load_of(running->list[i].pid);
        running->list[i].cpu_percent = list[i].percent;
    }
    free(self.loads);
    self.loads = list;
    self.load_count = list ? running->count : 0;
}

void running_spare(unsigned share) {
    self.share = share;
}

void running_free(struct running *running) {
    for (size_t i = 0; i < running->count; i++)
        stats_file_free(running->list[i].record);
    free(running->list);
    *running = (struct running){0};
}
