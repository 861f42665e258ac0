/* list.c: the command `vramgc list`: what became of each run that is kept, what it was, and its
 * file. It judges no more than the report does. Others may have named the files: no name may
 * steer the terminal. */
#include "cli/cli.h"
#include "read/kept.h"
#include "read/program.h"
#include "show/summary.h"
#include "show/summary_lines.h"
#include "show/terminal.h"
#include "read/units.h"
#include "judge/verdict.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool only_paths;

/* As wide as the terminal. */
static void write_command(const struct vramgc_file *file) {
    enum { INDENT = 4 };
    char line[PROGRAM_BYTES];
    struct text text = TEXT_IN(line);
    program_describe(file, &text);
    size_t columns = (size_t)terminal_of(stdout).columns - INDENT;
    printf("%*s%.*s\n", INDENT, "", (int)bytes_of_columns(line, columns), line);
}

static void write_figures(const struct kept_file *file) {
    char error[256];
    struct stats_file *record = stats_file_load(file->path, error, sizeof error);
    if (!record) {
        printf("%-16s  %s\n", show_date(file->peek.started_unix_ns).text, error);
        return;
    }
    struct verdict verdict = verdict_of(&record, 1);
    printf("%-16s  %8s  %8s  %-13s  %s\n", show_date(stats_file_began_unix_ns(record)).text,
           show_time(stats_file_ran_ns(record)).text,
           show_bytes(to_u64(stats_file_held_peak(record))).text, verdict_name(verdict.code),
           summary_end(record).text);
    write_command(record->file);
    stats_file_free(record);
}

/* Scripts get the bytes of a name. */
static void write_path(const char *path, bool as_it_is) {
    char *shown = strdup(path);
    if (!shown)
        return;
    if (!as_it_is)
        clean_text(shown, strlen(shown) + 1);
    printf("%s\n", shown);
    free(shown);
}

static void write_list(const struct kept *kept) {
    bool for_script = only_paths && !isatty(STDOUT_FILENO);
    if (!only_paths && kept->count > 0)
        printf("%-16s  %8s  %8s  %-13s  %s\n", "started", "ran", "held", "verdict", "ended");
    for (size_t i = 0; i < kept->count; i++) {
        if (!only_paths) {
            write_figures(&kept->files[i]);
            fputs("    ", stdout);
        }
        write_path(kept->files[i].path, for_script);
    }
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
