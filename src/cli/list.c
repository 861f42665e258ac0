/* list.c: the command `vramgc list`: what became of each run that is kept, and what it was, in a
 * line. It judges no more than the report does. Others may have named the files: no name may
 * steer the terminal. */
#include "cli/cli.h"
#include "read/records.h"
#include "read/stats_file.h"
#include "show/summary_lines.h"
#include "read/units.h"
#include "judge/verdict.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool only_paths;

/* The verdict in a word; else how the program ended, where that was not well. */
static struct figure show_result(struct stats_file *record) {
    struct verdict verdict = verdict_of(&record, 1);
    bool fine = verdict.kind == VERDICT_OK || verdict.kind == VERDICT_UNKNOWN;
    bool failed = record->state == PROCESS_EXITED && record->code != 0;
    if (verdict.kind == VERDICT_OOM)
        return (struct figure){"out of memory"};
    if (fine && record->state == PROCESS_RUNNING)
        return (struct figure){"running"};
    if (fine && failed)
        return show_words("exit %d", record->code);
    if (fine && record->state == PROCESS_KILLED)
        return show_signal(record->signal);
    return show_words("%s", verdict_name(&verdict));
}

/* As wide as the terminal, where that is not too narrow for it; all of it where there is none. */
static void write_run(struct stats_file *record) {
    enum { LEAST = 18 };
    int before =
        printf("%-16s  %7lu  %8s  %8s  %-13s  ", show_date(stats_file_began_unix_ns(record)).text,
               record->file->pid, show_time(stats_file_ran_ns(record)).text,
               show_bytes(to_u64(stats_file_held_peak(record))).text, show_result(record).text);
    TEXT_OVER(text, line, PROGRAM_BYTES);
    program_describe(record->file, &text);
    int room = terminal_of(stdout).columns - before;
    size_t columns = (size_t)(room > LEAST ? room : LEAST);
    bool cut = isatty(STDOUT_FILENO);
    printf("%.*s\n", (int)(cut ? bytes_of_columns(line, columns) : text.length), line);
}

/* Scripts get the bytes of a name. */
static void write_file_name(const char *path, bool as_it_is) {
    char *shown = strdup(path);
    if (!shown)
        return;
    if (!as_it_is)
        clean_text(shown, strlen(shown) + 1);
    printf("%s\n", shown);
    free(shown);
}

static void write_file(const struct kept_file *file) {
    char error[256];
    struct stats_file *record = stats_file_load(file->path, error, sizeof error);
    if (record) {
        write_run(record);
        stats_file_free(record);
    } else {
        printf("%-16s  %s: ", show_date(file->peek.started_unix_ns).text, error);
        write_file_name(file->path, false);
    }
}

static void write_list(const struct kept *kept) {
    bool for_script = only_paths && !isatty(STDOUT_FILENO);
    if (!only_paths && kept->count > 0)
        printf("%-16s  %7s  %8s  %8s  %-13s  %s\n", "started", "pid", "ran", "held", "result",
               "program");
    for (size_t i = 0; i < kept->count; i++)
        if (only_paths)
            write_file_name(kept->files[i].path, for_script);
        else
            write_file(&kept->files[i]);
    if (!only_paths && kept->count > 0)
        puts("\nMore of one: vramgc report PID. Files: vramgc list --paths");
}

static int list_main(struct args *args) {
    struct kept kept = kept_find();
    (void)args;
    write_list(&kept);
    if (kept.count == 0)
        complain("no statistics file is kept; `vramgc run` makes one");
    kept_free(&kept);
    return STATUS_FINE;
}

static const struct flag flags[] = {
    {"paths", 0, NULL, "only the files' names, for scripts", .on = &only_paths},
};

const struct command list_command = {
    "list",
    GROUP_LOOK,
    "",
    "the runs that are kept, newest first",
    "They lie in ${XDG_STATE_HOME:-~/.local/state}/vramgc, or where VRAMGC_OUT says.\n",
    FLAGS(flags),
    .main = list_main,
};
