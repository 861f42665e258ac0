/* list.c: the command `vramgc list`: a line for each statistics file that is kept. It says what is
 * there, and judges no more than the report does. */
#include "cli/cli.h"
#include "cli/kept.h"
#include "cli/summary_lines.h"
#include "cli/units.h"
#include "cli/verdict.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FLAG_PATHS, FLAG_HELP };

const struct flag list_flags[] = {
    [FLAG_PATHS] = {"paths", 0, NULL, "only the files' names, for scripts"},
    [FLAG_HELP] = {"help", 'h', NULL, "this text"},
};
const size_t list_flag_count = ARRAY_LENGTH(list_flags);

static struct figure show_date(uint64_t unix_ns) {
    struct figure figure = {""};
    time_t seconds = (time_t)(unix_ns / SECOND_NS);
    struct tm tm;
    if (localtime_r(&seconds, &tm))
        strftime(figure.text, sizeof figure.text, "%Y-%m-%d %H:%M", &tm);
    return figure;
}

static double peak_of(const struct stats_file *record) {
    double peak = stats_file_held_peak(record);
    return peak < 18446744073709549568.0 ? peak : 18446744073709549568.0;
}

static void write_line(const struct kept_file *file) {
    char error[256];
    struct stats_file *record = stats_file_load(file->path, error, sizeof error);
    if (!record) {
        printf("%-16s  %s\n", show_date(file->peek.started_unix_ns).text, error);
        return;
    }
    struct verdict verdict = verdict_of(&record, 1);
    const char *command = record->file->command_line;
    summary_line(stdout, "%-16s  %8s  %8s  %-13s %-8s %s",
                 show_date(file->peek.started_unix_ns).text, show_time(record->elapsed_ns).text,
                 show_bytes((uint64_t)peak_of(record)).text, verdict_name(verdict.code),
                 stats_file_state_name(record->state), command);
    stats_file_free(record);
}

static void write_list(const struct kept *kept, bool only_paths) {
    if (!only_paths && kept->count > 0)
        printf("%-16s  %8s  %8s  %-13s %-8s %s\n", "started", "ran", "held", "verdict", "ended",
               "command");
    for (size_t i = 0; i < kept->count; i++) {
        if (!only_paths)
            write_line(&kept->files[i]);
        printf("%s%s\n", only_paths ? "" : "    ", kept->files[i].path);
    }
}

int list_main(int argc, char **argv) {
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = list_flags,
                        .flag_count = list_flag_count,
                        .command = "list",
                        .next = 1};
    bool only_paths = false;
    for (int index; (index = args_next(&args)) != ARGS_END;) {
        if (index == FLAG_HELP)
            return STATUS_HELP;
        if (index == ARGS_BAD)
            return STATUS_USAGE;
        only_paths = true;
    }
    if (args.operand_count > 0) {
        complain("%s is too much; `vramgc list` takes options only", argv[0]);
        return STATUS_USAGE;
    }
    struct kept kept = kept_find();
    write_list(&kept, only_paths);
    if (kept.count == 0)
        complain("no statistics file is kept");
    kept_free(&kept);
    return fflush(stdout) == 0 ? STATUS_FINE : STATUS_BAD_INPUT;
}
