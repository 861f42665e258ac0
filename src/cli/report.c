/* report.c: the command `vramgc report`. It reads files, and writes nothing but the report. What
 * opens a page is asked, never guessed: xdg-open knows the user's choice, wslview the one outside
 * of WSL. */
#include "base/base.h"
#include "cli/cli.h"
#include "read/complain.h"
#include "read/outfile.h"
#include "read/records.h"
#include "read/running.h"
#include "show/html.h"
#include "show/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without any of these xdg-open would look for a browser of the terminal. */
static bool has_screen(void) {
    static const char *const names[] = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return false;
}

/* Some go on as long as the browser does: one that has not failed in three seconds has opened it.
 */
static bool succeeds(pid_t pid) {
    uint64_t until_ns = clock_ns() + 3 * SECOND_NS;
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if ((ended < 0 && errno != EINTR) || clock_ns() > until_ns)
            return ended == 0;
        sleep_ns(20 * MILLISECOND_NS);
    }
}

static bool open_with(const char *opener, const char *path) {
    pid_t pid = start_apart((const char *[]){opener, path, NULL});
    return pid > 0 && succeeds(pid);
}

/* Says where the page is, and how to see it where there is no browser; false: it was not opened.
 */
static bool browser_open(const char *path) {
    char *full = realpath(path, NULL);
    const char *shown = full ? full : path;
    bool screen = has_screen();
    bool opened = screen && (open_with("xdg-open", shown) || open_with("wslview", shown));
    if (opened)
        complain("opened %s", shown);
    else
        complain("%s: open %s in one", screen ? "no browser was found" : "no screen for a browser",
                 shown);
    free(full);
    return opened;
}

/* ---- the report ---- */

static struct {
    bool json, all, html, open, force;
    const char *output;
} request;

static void write_as_asked(FILE *out, struct stats_file **records, size_t count) {
    const struct summary_style style = {.most_rows = request.all ? SIZE_MAX : 8,
                                        .next_commands = !request.output && !request.all};
    if (request.json) {
        report_fields_write(out, EMIT_JSON, records, count, NULL);
        return;
    }
    if (request.html) {
        html_write(out, records, count);
        return;
    }
    summary_write(out, records, count, NULL, &style);
    if (request.all) {
        fputs("\nDETAILS  by the raw keys of `vramgc report --json`\n\n", out);
        report_fields_write(out, EMIT_TEXT, records, count, NULL);
    }
}

static int write_to(const char *path, const struct records *records) {
    struct outfile file;
    if (!outfile_open(&file, path, request.force))
        return STATUS_BAD_INPUT;
    write_as_asked(file.stream, records->list, records->count);
    return outfile_close(&file) ? STATUS_FINE : STATUS_BAD_INPUT;
}

/* A page to look at lies beside the first file, or where only this user may read. To be freed. */
static char *page_path(const struct stats_file *record) {
    char folder[] = "/tmp/vramgc-XXXXXX", *path = NULL;
    if (asprintf(&path, "%s.html", record->path) < 0)
        return NULL;
    if (outfile_may_write(path))
        return path;
    free(path);
    return mkdtemp(folder) && asprintf(&path, "%s/report.html", folder) >= 0 ? path : NULL;
}

/* Without -o the page is as private as the file that it is made from. */
static int show_page(const struct records *records) {
    char *path = request.output ? strdup(request.output) : page_path(records->list[0]);
    if (!request.output)
        umask(S_IRWXG | S_IRWXO);
    int status = path ? write_to(path, records) : STATUS_BAD_INPUT;
    if (status == STATUS_FINE && !browser_open(path))
        status = STATUS_BAD_INPUT;
    free(path);
    return status;
}

static int report(const struct records *records) {
    int status = STATUS_FINE;
    if (records->count > 0)
        status = request.open ? show_page(records) : write_to(request.output, records);
    return records->complete ? status : STATUS_BAD_INPUT;
}

static bool is_possible(void) {
    bool to_stdout = !request.output || strcmp(request.output, "-") == 0;
    if (request.html && (request.json || request.all))
        complain("--html and --open make a page for a browser: without --json and --all");
    else if (request.open && request.output && to_stdout)
        complain("--open needs a file: -o FILE, or none");
    else if (request.html && !request.open && to_stdout && isatty(STDOUT_FILENO))
        complain("--html is for a browser: give -o FILE, or --open");
    else
        return true;
    return false;
}

/* For a person who looks for a program of which there is no report. */
static void say_strangers(void) {
    struct running running = running_find();
    for (size_t i = 0; i < running.stranger_count; i++)
        complain("pid %lu uses CUDA without vramgc, and has no report; in %s start it by: vramgc "
                 "run %s",
                 running.strangers[i].pid, running.strangers[i].folder,
                 running.strangers[i].command);
    running_free(&running);
}

static int report_main(struct args *args) {
    request.html = request.html || request.open;
    if (!is_possible())
        return STATUS_USAGE;
    bool names_page = request.html && !request.open && !request.output;
    struct records records = records_load_or_hint(
        args->argv, (size_t)args->operand_count,
        names_page ? "; --html writes to standard output: use -o FILE" : RECORDS_HINT);
    /* In a page nobody would see that one of the files named for it is missing. */
    bool is_wanted = records.complete || !request.html || args->operand_count == 0;
    int status = is_wanted ? report(&records) : STATUS_BAD_INPUT;
    records_free(&records);
    if (args->operand_count == 0 && isatty(STDERR_FILENO))
        say_strangers();
    return status;
}

static const struct flag flags[] = {
    {"json", 0, NULL, "as JSON (its schema: `vramgc help schema`)", .on = &request.json},
    {"all", 'a', NULL, "as text, then every figure, setting and function by its raw key",
     .on = &request.all},
    {"html", 0, NULL,
     "as one page for a browser: timeline, map of the card, tables; it needs no network",
     .on = &request.html},
    {"open", 0, NULL, "the same, and open it; without -o it lies beside the file",
     .on = &request.open},
    {"output", 'o', "FILE", "write there instead of to standard output", .value = &request.output},
    {"force", 'f', NULL, "replace FILE even if it is no report of vramgc", .on = &request.force},
};

const struct command report_command = {
    "report",
    GROUP_LOOK,
    "[FILE|PID...]",
    "what happened in a run, why, and what to do; ended or running",
    "Without FILE, of the newest run that is kept (see `vramgc list`); PID: of one of these. "
    "Exit status 1 when a file could not be read or written, 2 for a wrong call.\n",
    FLAGS(flags),
    .main = report_main,
};
