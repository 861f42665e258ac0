/* make_file_main.c: make_file SCENARIO FILE [pid PID]: writes a statistics file. With a pid the
 * file says that this living process is the one it is about, and that nobody saw its end. */
#include "make_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Field 22 of /proc/PID/stat; the test's processes have no spaces in their names. */
static uint64_t start_ticks(const char *pid) {
    char path[64];
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *stream = fopen(path, "r");
    if (stream && fscanf(stream,
                         "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                         "%*s %*s %*s %*s %*s %llu",
                         &start) != 1)
        start = 0;
    if (stream)
        fclose(stream);
    return start;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv) {
    struct vramgc_file *file = malloc(sizeof *file);
    if (argc < 3 || !file || !make_file(file, argv[1])) {
        fprintf(stderr, "usage: make_file SCENARIO FILE [pid PID]\n");
        return 2;
    }
    if (argc == 5 && strcmp(argv[3], "pid") == 0) {
        file->pid = strtoull(argv[4], NULL, 10);
        file->process_start = start_ticks(argv[4]);
        file->end = VRAMGC_END_UNKNOWN;
        uint64_t age_ns = file->latest_ns - file->started_ns;
        file->latest_ns = now_ns();
        file->started_ns = file->latest_ns > age_ns ? file->latest_ns - age_ns : 0;
    }
    FILE *stream = fopen(argv[2], "w");
    if (!stream || fwrite(file, sizeof *file, 1, stream) != 1 || fclose(stream) != 0) {
        perror(argv[2]);
        return 1;
    }
    free(file);
    return 0;
}
