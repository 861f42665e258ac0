/* report.c: the command `vramgc report`. It reads files, and writes nothing but the report. */
#include "cli/browser.h"
#include "cli/cli.h"
#include "show/html.h"
#include "read/outfile.h"
#include "read/records.h"
#include "show/summary.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLAG_JSON, FLAG_TEXT, FLAG_ALL, FLAG_HTML, FLAG_OPEN, FLAG_OUTPUT, FLAG_FORCE, FLAG_HELP };

const struct flag report_flags[] = {
    [FLAG_JSON] = {"json", 0, NULL, "as JSON (its schema: `vramgc help schema`)"},
    [FLAG_TEXT] = {"text", 0, NULL, "as a page of text (the default)"},
    [FLAG_ALL] = {"all", 'a', NULL, "as text, every figure, setting and function"},
    [FLAG_HTML] =
        {"html", 0, NULL,
         "as one page for a browser: timeline, map of the card, tables; it needs no network"},
    [FLAG_OPEN] = {"open", 0, NULL, "the same, and open it; without -o it lies beside the file"},
    [FLAG_OUTPUT] = {"output", 'o', "FILE", "write there instead of to standard output"},
    [FLAG_FORCE] = {"force", 'f', NULL, "replace FILE even if it is no report of vramgc"},
    [FLAG_HELP] = {"help", 'h', NULL, "this text"},
};
const size_t report_flag_count = ARRAY_LENGTH(report_flags);

struct request {
    bool json, all, html, open, force, help;
    const char *output;
};

static bool read_options(struct args *args, struct request *request) {
    for (;;) {
        switch (args_next(args)) {
        case FLAG_JSON:
            request->json = true;
            break;
        case FLAG_TEXT:
            request->json = false;
            request->html = request->open = false;
            break;
        case FLAG_ALL:
            request->all = true;
            break;
        case FLAG_OPEN:
            request->open = true;
            request->html = true;
            break;
        case FLAG_HTML:
            request->html = true;
            break;
        case FLAG_OUTPUT:
            request->output = args->value;
            break;
        case FLAG_FORCE:
            request->force = true;
            break;
        case FLAG_HELP:
            request->help = true;
            return true;
        case ARGS_END:
            return true;
        default:
            return false;
        }
    }
}

static void write_report(FILE *out, struct stats_file **records, size_t count,
                         const struct request *request) {
    const struct summary_style style = {.most_rows = request->all ? SIZE_MAX : 8,
                                        .next_commands = !request->output && !request->all};
    if (request->json) {
        report_fields_write(out, EMIT_JSON, records, count, NULL);
        return;
    }
    if (request->html) {
        html_write(out, records, count);
        return;
    }
    summary_write(out, records, count, NULL, &style);
    if (request->all) {
        fputc('\n', out);
        report_fields_write(out, EMIT_TEXT, records, count, NULL);
    }
}

static int write_to(const char *path, const struct records *records,
                    const struct request *request) {
    struct outfile file;
    if (!outfile_open(&file, path, request->force))
        return STATUS_BAD_INPUT;
    write_report(file.stream, records->list, records->count, request);
    return outfile_close(&file) ? STATUS_FINE : STATUS_BAD_INPUT;
}

/* What is only looked at lies beside the first file, or where only this user looks. To be freed. */
static char *page_path(const struct stats_file *record) {
    char folder[] = "/tmp/vramgc-XXXXXX", *path = NULL;
    if (asprintf(&path, "%s.html", record->path) < 0)
        return NULL;
    if (outfile_may_write(path))
        return path;
    free(path);
    return mkdtemp(folder) && asprintf(&path, "%s/report.html", folder) >= 0 ? path : NULL;
}

/* A page that nobody gave a place to is as private as the file that it is made from. */
static int show_page(const struct records *records, const struct request *request) {
    char *path = request->output ? strdup(request->output) : page_path(records->list[0]);
    if (!request->output)
        umask(S_IRWXG | S_IRWXO);
    int status = path ? write_to(path, records, request) : STATUS_BAD_INPUT;
    if (status == STATUS_FINE && !browser_open(path))
        status = STATUS_BAD_INPUT;
    free(path);
    return status;
}

static int report(const struct records *records, const struct request *request) {
    int status = STATUS_FINE;
    if (records->count > 0)
        status = request->open ? show_page(records, request)
                               : write_to(request->output, records, request);
    return records->complete ? status : STATUS_BAD_INPUT;
}

static bool is_possible(const struct request *request) {
    bool to_stdout = !request->output || strcmp(request->output, "-") == 0;
    if (request->html && (request->json || request->all))
        complain("--html and --open make a page for a browser: without --json and --all");
    else if (request->open && request->output && to_stdout)
        complain("--open needs a file: -o FILE, or none");
    else if (request->html && !request->open && to_stdout && isatty(STDOUT_FILENO))
        complain("--html is for a browser: give -o FILE, or --open");
    else
        return true;
    return false;
}

int report_main(int argc, char **argv) {
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = report_flags,
                        .flag_count = report_flag_count,
                        .command = "report",
                        .next = 1};
    struct request request = {0};
    if (!read_options(&args, &request))
        return STATUS_USAGE;
    if (request.help)
        return STATUS_HELP;
    if (!is_possible(&request))
        return STATUS_USAGE;
    struct records records = records_load(argv, (size_t)args.operand_count);
    int status = report(&records, &request);
    records_free(&records);
    return status;
}
