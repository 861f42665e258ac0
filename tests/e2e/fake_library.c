/* fake_library.c: stands in for libvramgc.so where the launcher is tested: a process whose name is
 * in FAKE_CUDA "uses CUDA", that is, leaves a statistics file as the library would. */
#include "make_file.h"
#include "base/base.h"
#include "base/control_group.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static unsigned long long start_ticks(void) {
    char line[1024] = "";
    FILE *stream = fopen("/proc/self/stat", "r");
    if (stream && !fgets(line, sizeof line, stream))
        line[0] = 0;
    if (stream)
        fclose(stream);
    char *field = strrchr(line, ')');
    for (int i = 0; field && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

static void identify(struct vramgc_file *file) {
    const char *run_id = getenv("VRAMGC_RUN_ID");
    file->pid = (uint64_t)getpid();
    file->process_start = start_ticks();
    file->started_ns = clock_ns();
    file->latest_ns = file->started_ns + 5 * SECOND_NS;
    file->end = VRAMGC_END_UNKNOWN;
    text_copy(file->run_id, sizeof file->run_id, run_id ? run_id : "");
    text_copy(file->command_line, sizeof file->command_line, program_invocation_name);
}

/* Since the file's latest look Linux has ended so many processes of the control group; or "another"
 * is the group. */
static void count_kills(struct vramgc_host *host, const char *kills) {
    struct control_group group = control_group_read("");
    host->group_id = group.id + (strcmp(kills, "another") == 0);
    host->counts_kills = 1;
    host->oom_kills = group.oom_kills - strtoull(kills, NULL, 10);
    host->lack = VRAMGC_LACK_UNKNOWN;
}

static int create(const char *pattern) {
    char path[PATH_MAX];
    struct text text = TEXT_IN(path);
    text_add_pattern(&text, pattern);
    size_t end = text.length;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    for (int i = 1; file < 0 && errno == EEXIST && i < 10; i++) {
        text.length = end;
        text_format(&text, ".%d", i);
        file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    }
    return file;
}

__attribute__((constructor)) static void start(void) {
    const char *names = getenv("FAKE_CUDA"), *scenario = getenv("FAKE_SCENARIO");
    const char *pattern = getenv("VRAMGC_OUT");
    if (!names || !strstr(names, program_invocation_short_name) || !pattern)
        return;
    int fd = create(pattern);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(struct vramgc_file)) != 0)
        return;
    struct vramgc_file *file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        return;
    make_file(file, scenario ? scenario : "plain");
    identify(file);
    if (getenv("FAKE_KILLS"))
        count_kills(&file->host, getenv("FAKE_KILLS"));
}
