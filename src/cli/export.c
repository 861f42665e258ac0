/* export.c: the command `vramgc export`: reads statistics files and writes them for other tools. It
 * knows the formats by name only. */
#include "show/export_formats.h"
#include "cli/cli.h"
#include "read/outfile.h"
#include "base/base.h"

#include <string.h>

typedef void export_format(FILE *out, const struct records *records);

static const struct {
    const char *flag;
    export_format *write;
} formats[] = {
    {"markdown", export_markdown},
    {"prometheus", export_prometheus},
    {"perfetto", export_perfetto},
    {"torch", export_torch},
};

static struct {
    export_format *write;
    const char *output;
    uint64_t every_ns; /* 0: once */
    bool force;
} request;

static bool take_format(const struct args *args) {
    size_t i = 0;
    while (strcmp(formats[i].flag, args->flag->name) != 0)
        i++;
    if (request.write && request.write != formats[i].write) {
        complain("one format at a time; see `vramgc help export`");
        return false;
    }
    request.write = formats[i].write;
    return true;
}

static bool is_complete(void) {
    if (!request.write)
        complain("which format? --markdown, --prometheus, --perfetto or --torch");
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
    {"markdown", 0, NULL, "for a bug thread, with the page of text folded up", .take = take_format},
    {"prometheus", 0, NULL,
     "metrics for the textfile collector of Prometheus' node_exporter; `vramgc help "
     "prometheus-rules` and `vramgc help grafana-dashboard` have rules and a dashboard",
     .take = take_format},
    {"perfetto", 0, NULL,
     "a trace for ui.perfetto.dev or chrome://tracing: memory over time, reclaims, refusals, marks",
     .take = take_format},
    {"torch", 0, NULL,
     "a snapshot for pytorch.org/memory_viz: segments and blocks at the latest out-of-memory of "
     "`vramgc run --snapshot-on-oom`, else live memory over time",
     .take = take_format},
    {"every", 0, "DURATION",
     "write -o FILE anew each time that DURATION has passed, until interrupted",
     .every_ns = &request.every_ns},
    {"output", 'o', "FILE", "write there instead of to standard output", .value = &request.output},
    {"force", 'f', NULL, "replace FILE even if vramgc has not written it", .on = &request.force},
};

const struct command export_command = {
    "export",
    GROUP_LOOK,
    "[FILE|PID...]",
    "a run for a bug tracker, Prometheus, Perfetto, PyTorch",
    "Without FILE, the newest run that is kept; --prometheus: all processes that run, and those "
    "that have ended within five minutes. "
    "A file of a running process is read as it is now: with --every the collector sees it. "
    "Exit status as for report.\n",
    FLAGS(flags),
    .main = export_main,
};
