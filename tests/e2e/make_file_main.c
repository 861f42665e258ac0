/* make_file_main.c: make_file SCENARIO FILE [pid PID]: writes a statistics file. With a pid the
 * file says that this living process is the one it is about, and that nobody saw its end.
 *
 * make_file set FILE NAME VALUE...: changes fields of one, which may be mapped; +N or -N: by so
 * much.
 *
 * make_file clock FILE SECONDS: who has VRAMGC_TEST_CLOCK=FILE reads the machine's clock and so
 * much. */
#include "make_file.h"
#include "base/base.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static const struct field {
    const char *name;
    size_t offset, text_bytes; /* 0: a number */
} fields[] = {
#define NUMBER(name)                                                                               \
    { #name, offsetof(struct vramgc_file, name), 0 }
#define TEXT(name)                                                                                 \
    { #name, offsetof(struct vramgc_file, name), sizeof((struct vramgc_file *)0)->name }
    NUMBER(pid),
    NUMBER(started_unix_ns),
    NUMBER(latest_ns),
    NUMBER(python_ended_ns),
    NUMBER(end),
    NUMBER(end_status),
    TEXT(run_id),
    TEXT(mode),
    TEXT(host_name),
    TEXT(working_folder),
    TEXT(command_line),
    TEXT(sites[0].function),
    TEXT(sites[0].file),
    NUMBER(sites[0].line), /* with what is unused */
    TEXT(sites[0].phase),
    TEXT(sites[2].phase),
    TEXT(actions[0].function),
    TEXT(actions[0].phase),
    NUMBER(actions[0].until_ns),
    NUMBER(needs_proof),
    NUMBER(parent_pid),
    NUMBER(before_ns),
    NUMBER(host.latest.time_ns),
    NUMBER(refusals[0].request_bytes),
    NUMBER(devices[0].neighbours.time_ns),
    NUMBER(devices[0].owners_at_oom.list[0].blocks),
    NUMBER(devices[0].owners_at_oom.live_bytes),
    TEXT(devices[0].name),
    NUMBER(devices[0].stats.other_bytes.current),
    NUMBER(devices[0].stats.held_bytes.peak),
    NUMBER(devices[0].stats.reserved_bytes.peak),
    NUMBER(devices[0].stats.held_bytes.current),
    NUMBER(devices[0].stats.used_bytes.peak),
    NUMBER(devices[0].stats.live_bytes.peak),
    NUMBER(devices[0].stats.held_ms_sum_kib),
    NUMBER(devices[0].stats.live_ms_sum_kib),
    NUMBER(devices[0].stats.ooms),
    NUMBER(devices[0].stats.pinned_bytes.current),
    NUMBER(devices[0].total_bytes)};

static int set_text(int file, const struct field *field, const char *value) {
    char text[sizeof((struct vramgc_file *)0)->command_line] = {0};
    snprintf(text, field->text_bytes, "%s", value);
    return pwrite(file, text, field->text_bytes, (off_t)field->offset) < 0;
}

static int set_number(int file, const struct field *field, const char *value) {
    int64_t number = 0, more = strtoll(value, NULL, 10);
    if ((*value == '-' || *value == '+') &&
        pread(file, &number, sizeof number, (off_t)field->offset) < 0)
        return 1;
    number += more;
    return pwrite(file, &number, sizeof number, (off_t)field->offset) < 0;
}

static int set(const char *path, const char *name, const char *value) {
    int file = open(path, O_RDWR), failed = 1;
    for (size_t i = 0; file >= 0 && i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, name) == 0)
            failed = (fields[i].text_bytes ? set_text : set_number)(file, &fields[i], value);
    if (failed)
        fprintf(stderr, "make_file: %s of %s cannot be set\n", name, path);
    close(file);
    return failed;
}

static int set_all(int argc, char **argv) {
    int failed = 0;
    for (int i = 3; i + 1 < argc; i += 2)
        failed |= set(argv[2], argv[i], argv[i + 1]);
    return failed;
}

/* The run has just been seen. The tests' clock is ahead, so that no run began before the machine.
 */
static void be_now(struct vramgc_file *file) {
    uint64_t age_ns = file->latest_ns - file->started_ns;
    file->latest_ns = clock_ns();
    file->started_ns = file->latest_ns - age_ns;
}

/* The nanoseconds that VRAMGC_TEST_CLOCK adds (src/base/clock.c), written in place: who runs
 * already sees them. */
static int set_clock(const char *path, const char *seconds) {
    uint64_t ahead_ns = strtoull(seconds, NULL, 10) * SECOND_NS;
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    int failed = pwrite(file, &ahead_ns, sizeof ahead_ns, 0) != sizeof ahead_ns;
    close(file);
    return failed;
}

int main(int argc, char **argv) {
    if (argc > 4 && strcmp(argv[1], "set") == 0)
        return set_all(argc, argv);
    if (argc == 4 && strcmp(argv[1], "clock") == 0)
        return set_clock(argv[2], argv[3]);
    struct vramgc_file *file = malloc(sizeof *file);
    if (argc < 3 || !file || !make_file(file, argv[1])) {
        fprintf(stderr, "usage: make_file SCENARIO FILE [pid PID]\n");
        return 2;
    }
    if (argc == 5 && strcmp(argv[3], "pid") == 0) {
        file->pid = strtoull(argv[4], NULL, 10);
        file->process_start = start_ticks(argv[4]);
        file->end = VRAMGC_END_UNKNOWN;
        be_now(file);
    }
    FILE *stream = fopen(argv[2], "w");
    if (!stream || fwrite(file, sizeof *file, 1, stream) != 1 || fclose(stream) != 0) {
        perror(argv[2]);
        return 1;
    }
    free(file);
    return 0;
}
