/* report.c: the command `vramgc report`. It reads files, and writes nothing but the report. */
#include "cli/cli.h"
#include "cli/outfile.h"
#include "cli/records.h"
#include "cli/summary.h"
#include "base/base.h"

enum { FLAG_JSON, FLAG_TEXT, FLAG_ALL, FLAG_OUTPUT, FLAG_FORCE, FLAG_HELP };

const struct flag report_flags[] = {
    [FLAG_JSON] = {"json", 0, NULL, "as JSON (its schema: `vramgc help schema`)"},
    [FLAG_TEXT] = {"text", 0, NULL, "as a page of text (the default)"},
    [FLAG_ALL] = {"all", 'a', NULL, "as text, every figure, setting and function"},
    [FLAG_OUTPUT] = {"output", 'o', "FILE", "write there instead of to standard output"},
    [FLAG_FORCE] = {"force", 'f', NULL, "replace FILE even if it is no report of vramgc"},
    [FLAG_HELP] = {"help", 'h', NULL, "this text"},
};
const size_t report_flag_count = ARRAY_LENGTH(report_flags);

struct request {
    bool json, all, force, help;
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
            break;
        case FLAG_ALL:
            request->all = true;
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
    summary_write(out, records, count, NULL, &style);
    if (request->all) {
        fputc('\n', out);
        report_fields_write(out, EMIT_TEXT, records, count, NULL);
    }
}

static int report(const struct records *records, const struct request *request) {
    int status = records->complete ? STATUS_FINE : STATUS_BAD_INPUT;
    struct outfile file;
    if (records->count == 0)
        return status;
    if (!outfile_open(&file, request->output, request->force))
        return STATUS_BAD_INPUT;
    write_report(file.stream, records->list, records->count, request);
    return outfile_close(&file) ? status : STATUS_BAD_INPUT;
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
    struct records records = records_load(argv, (size_t)args.operand_count);
    int status = report(&records, &request);
    records_free(&records);
    return status;
}
