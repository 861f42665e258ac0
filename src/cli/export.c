/* export.c: the command `vramgc export`: reads statistics files and writes them for other tools. It
 * knows the formats by name only. */
#include "show/export_formats.h"
#include "cli/cli.h"
#include "read/outfile.h"
#include "base/base.h"
#include "base/parse.h"

#include <string.h>

#define CSV_TABLES  "timeline|figures|reclaims|refusals|jobs"
#define FOLDED_WHEN "peak|oom"

typedef void export_format(FILE *out, const struct records *records);

static const struct {
    const char *flag;
    const char *table; /* of CSV, and when of folded; NULL: the format has no choice */
    export_format *write;
} formats[] = {
    {"csv", "timeline", export_timeline_csv},
    {"csv", "figures", export_figures_csv},
    {"csv", "reclaims", export_reclaims_csv},
    {"csv", "refusals", export_refusals_csv},
    {"csv", "jobs", export_jobs_csv},
    {"markdown", NULL, export_markdown},
    {"prometheus", NULL, export_prometheus},
    {"perfetto", NULL, export_perfetto},
    {"folded", "peak", export_folded_peak},
    {"folded", "oom", export_folded_oom},
    {"torch", NULL, export_torch},
};

static struct {
    export_format *write;
    const char *output;
    uint64_t every_ns; /* 0: once */
    bool force;
} request;

static bool take_format(const struct args *args) {
    for (size_t i = 0; i < ARRAY_LENGTH(formats); i++) {
        const char *table = formats[i].table;
        bool named = !args->value || (table && strcmp(args->value, table) == 0);
        if (strcmp(formats[i].flag, args->flag->name) != 0 || !named)
            continue;
        if (request.write && request.write != formats[i].write) {
            complain("one format at a time; see `vramgc help export`");
            return false;
        }
        request.write = formats[i].write;
        return true;
    }
    bool csv = strcmp(args->flag->name, "csv") == 0;
    complain("--%s %s is not one of %s", args->flag->name, args->value,
             csv ? CSV_TABLES : FOLDED_WHEN);
    return false;
}

static bool take_every(const struct args *args) {
    if (parse_duration(args->value, &request.every_ns) && request.every_ns >= 100 * MILLISECOND_NS)
        return true;
    complain("--every %s is no duration of at least 100ms", args->value);
    return false;
}

static bool is_complete(void) {
    if (!request.write)
        complain("which format? --csv, --markdown, --prometheus, --perfetto, --folded or "
                 "--torch");
    else if (request.every_ns > 0 && !request.output)
        complain("--every needs -o FILE");
    else
        return true;
    return false;
}

static int export_once(char *const *paths, size_t count) {
    bool metrics = request.write == export_prometheus; /* of what is, not of what was */
    struct records records =
        metrics ? records_load_running(paths, count) : records_load(paths, count);
    int status = records.complete ? STATUS_FINE : STATUS_BAD_INPUT;
    struct outfile file;
    if (records.count > 0 || (metrics && records.complete)) {
        if (outfile_open(&file, request.output, request.force)) {
            request.write(file.stream, &records);
            status = outfile_close(&file) ? status : STATUS_BAD_INPUT;
        } else {
            status = STATUS_BAD_INPUT;
        }
    }
    records_free(&records);
    return status;
}

/* A collector reads the file between two of these. A file that cannot be read now may be there the
 * next time: what is wrong is said once, and that it is over. */
_Noreturn static void export_again_and_again(char *const *paths, size_t count) {
    for (;;) {
        export_once(paths, count);
        complain_anew("that is over: %s is written again", request.output);
        sleep_ns(request.every_ns);
    }
}

static int export_main(struct args *args) {
    size_t count = (size_t)args->operand_count;
    if (!is_complete())
        return STATUS_USAGE;
    if (request.every_ns > 0)
        export_again_and_again(args->argv, count);
    return export_once(args->argv, count);
}

static const struct flag flags[] = {
    {"csv", 0, "[=" CSV_TABLES "]",
     "a table for a spreadsheet; the timeline, if nothing else is named", .take = take_format},
    {"markdown", 0, NULL, "for a bug thread, with the page of text folded up", .take = take_format},
    {"prometheus", 0, NULL,
     "metrics for the textfile collector of Prometheus' node_exporter; `vramgc help "
     "prometheus-rules` and `vramgc help grafana-dashboard` have rules and a dashboard",
     .take = take_format},
    {"perfetto", 0, NULL,
     "a trace for ui.perfetto.dev or chrome://tracing: memory over time, reclaims, refusals, marks",
     .take = take_format},
    {"folded", 0, "[=" FOLDED_WHEN "]",
     "live memory by Python's call stacks, for speedscope.app or flamegraph.pl; at the peak, if "
     "nothing else is named",
     .take = take_format},
    {"torch", 0, NULL,
     "a snapshot for pytorch.org/memory_viz: segments and blocks at the latest out-of-memory of "
     "`vramgc run --snapshot-on-oom`, else live memory over time",
     .take = take_format},
    {"every", 0, "DURATION",
     "write -o FILE anew each time that DURATION has passed, until interrupted",
     .take = take_every},
    {"output", 'o', "FILE", "write there instead of to standard output", .value = &request.output},
    {"force", 'f', NULL, "replace FILE even if vramgc has not written it", .on = &request.force},
};

const struct command export_command = {
    "export",
    GROUP_LOOK,
    "[FILE|PID...]",
    "a run for a bug tracker, spreadsheet, Prometheus, Perfetto, PyTorch",
    "Without FILE, the newest run that is kept; --prometheus: all processes that run, and those "
    "that have ended within five minutes. "
    "A file of a running process is read as it is now: with --every the collector sees it. "
    "Exit status as for report.\n",
    FLAGS(flags),
    .main = export_main,
};
