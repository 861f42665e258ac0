/* export.c: the command `vramgc export`: reads statistics files and writes them for other tools. It
 * knows the formats by name only. */
#include "show/export_formats.h"
#include "cli/cli.h"
#include "read/outfile.h"
#include "base/base.h"
#include "base/parse.h"

#include <string.h>
#include <time.h>

enum {
    FLAG_CSV,
    FLAG_MARKDOWN,
    FLAG_PROMETHEUS,
    FLAG_PERFETTO,
    FLAG_TORCH,
    FLAG_EVERY,
    FLAG_OUTPUT,
    FLAG_FORCE,
    FLAG_HELP
};

#define CSV_TABLES "timeline|figures|reclaims|refusals|jobs"

const struct flag export_flags[] = {
    [FLAG_CSV] = {"csv", 0, "[=" CSV_TABLES "]",
                  "a table for a spreadsheet; the timeline, if nothing else is named"},
    [FLAG_MARKDOWN] = {"markdown", 0, NULL, "for a bug thread, with the page of text folded up"},
    [FLAG_PROMETHEUS] = {"prometheus", 0, NULL,
                         "metrics for the textfile collector of Prometheus' node_exporter"},
    [FLAG_PERFETTO] = {"perfetto", 0, NULL,
                       "a trace for ui.perfetto.dev or chrome://tracing: memory over time, "
                       "reclaims, refusals, marks"},
    [FLAG_TORCH] = {"torch", 0, NULL,
                    "a snapshot for pytorch.org/memory_viz: segments and blocks at the latest "
                    "out-of-memory of `vramgc run --snapshot-on-oom`, else live memory over time"},
    [FLAG_EVERY] = {"every", 0, "DURATION",
                    "write -o FILE anew each time that DURATION has passed, until interrupted"},
    [FLAG_OUTPUT] = {"output", 'o', "FILE", "write there instead of to standard output"},
    [FLAG_FORCE] = {"force", 'f', NULL, "replace FILE even if vramgc has not written it"},
    [FLAG_HELP] = {"help", 'h', NULL, "this text"},
};
const size_t export_flag_count = ARRAY_LENGTH(export_flags);

typedef void export_format(FILE *out, const struct records *records);

static const struct {
    int flag;
    const char *table; /* of CSV; NULL: the format has no choice */
    export_format *write;
} formats[] = {
    {FLAG_CSV, "timeline", export_timeline_csv},
    {FLAG_CSV, "figures", export_figures_csv},
    {FLAG_CSV, "reclaims", export_reclaims_csv},
    {FLAG_CSV, "refusals", export_refusals_csv},
    {FLAG_CSV, "jobs", export_jobs_csv},
    {FLAG_MARKDOWN, NULL, export_markdown},
    {FLAG_PROMETHEUS, NULL, export_prometheus},
    {FLAG_PERFETTO, NULL, export_perfetto},
    {FLAG_TORCH, NULL, export_torch},
};

struct request {
    export_format *write;
    const char *output;
    uint64_t every_ns; /* 0: once */
    bool force, help;
};

static bool take_format(struct request *request, int flag, const char *table) {
    for (size_t i = 0; i < ARRAY_LENGTH(formats); i++) {
        bool named = !table || (formats[i].table && strcmp(table, formats[i].table) == 0);
        if (formats[i].flag != flag || !named)
            continue;
        if (request->write && request->write != formats[i].write) {
            complain("one format at a time; see `vramgc help export`");
            return false;
        }
        request->write = formats[i].write;
        return true;
    }
    complain("--csv %s is not one of " CSV_TABLES, table);
    return false;
}

static bool take_every(struct request *request, const char *value) {
    if (parse_duration(value, &request->every_ns) && request->every_ns >= 100 * MILLISECOND_NS)
        return true;
    complain("--every %s is no duration of at least 100ms", value);
    return false;
}

static bool take_flag(struct request *request, const struct args *args, int index) {
    switch (index) {
    case FLAG_EVERY:
        return take_every(request, args->value);
    case FLAG_OUTPUT:
        request->output = args->value;
        return true;
    case FLAG_FORCE:
        request->force = true;
        return true;
    case FLAG_HELP:
        request->help = true;
        return true;
    case ARGS_BAD:
        return false;
    default:
        return take_format(request, index, args->value);
    }
}

static bool is_complete(const struct request *request) {
    if (!request->write)
        complain("which format? --csv, --markdown, --prometheus, --perfetto or --torch");
    else if (request->every_ns > 0 && !request->output)
        complain("--every needs -o FILE");
    else
        return true;
    return false;
}

static int export_once(const struct request *request, char *const *paths, size_t count) {
    bool metrics = request->write == export_prometheus; /* of what is, not of what was */
    struct records records =
        metrics ? records_load_running(paths, count) : records_load(paths, count);
    int status = records.complete ? STATUS_FINE : STATUS_BAD_INPUT;
    struct outfile file;
    if (records.count > 0 || (metrics && records.complete)) {
        if (outfile_open(&file, request->output, request->force)) {
            request->write(file.stream, &records);
            status = outfile_close(&file) ? status : STATUS_BAD_INPUT;
        } else {
            status = STATUS_BAD_INPUT;
        }
    }
    records_free(&records);
    return status;
}

/* A collector reads the file between two of these. A file that cannot be read now may be there the
 * next time. */
_Noreturn static void export_again_and_again(const struct request *request, char *const *paths,
                                             size_t count) {
    const struct timespec pause = {.tv_sec = (time_t)(request->every_ns / SECOND_NS),
                                   .tv_nsec = (long)(request->every_ns % SECOND_NS)};
    for (;;) {
        export_once(request, paths, count);
        nanosleep(&pause, NULL);
    }
}

int export_main(int argc, char **argv) {
    struct request request = {0};
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = export_flags,
                        .flag_count = export_flag_count,
                        .command = "export",
                        .next = 1};
    for (int index; (index = args_next(&args)) != ARGS_END;)
        if (!take_flag(&request, &args, index))
            return STATUS_USAGE;
    if (request.help)
        return STATUS_HELP;
    if (!is_complete(&request))
        return STATUS_USAGE;
    size_t count = (size_t)args.operand_count;
    if (request.every_ns > 0)
        export_again_and_again(&request, argv, count);
    return export_once(&request, argv, count);
}
