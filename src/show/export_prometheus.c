/* export_prometheus.c: each figure as Prometheus wants it: base units (seconds, ratios), _total for
 * what only grows, and a family's samples in one piece. A figure's meaning is that of the tables.
 */
#include "show/export_formats.h"
#include "read/stats_file.h"
#include "read/derived.h"
#include "show/record_fields.h"
#include "show/summary.h"
#include "judge/tally.h"
#include "base/parse.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* One family: of a figure of stats.def, or of the host's memory. */
struct family {
    const char *name, *suffix, *type, *help;
    enum unit unit;
    const struct stat_info *stat;
    const struct host_figure *host;
    bool peak; /* its highest value */
};

static void write_escaped(FILE *out, const char *text, bool quotes) {
    for (; *text; text++)
        if (*text == '\\' || (quotes && *text == '"'))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

static void write_label(FILE *out, const char *name, const char *value) {
    fprintf(out, ",%s=\"", name);
    write_escaped(out, value, true);
    fputc('"', out);
}

/* reclaim_ns is reclaim_seconds here. */
static void write_family_name(FILE *out, const struct family *family) {
    size_t length = strlen(family->name);
    bool is_time = family->unit == UNIT_NS && length > 3;
    fprintf(out, "vramgc_%.*s%s%s", (int)(is_time ? length - 3 : length), family->name,
            is_time ? "_seconds" : "", family->suffix);
}

static void write_family_head(FILE *out, const struct family *family) {
    fputs("# HELP ", out);
    write_family_name(out, family);
    fputc(' ', out);
    write_escaped(out, family->help, false);
    fputs("\n# TYPE ", out);
    write_family_name(out, family);
    fprintf(out, " %s\n", family->type);
}

/* ---- labels ---- */

/* The same file given twice would be the same sample twice, which Prometheus takes none of. */
static bool is_first(const struct records *records, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(records->list[i]->path, records->list[index]->path) == 0)
            return false;
    return true;
}

/* A program that has ended has nothing now, so that sums are right; totals and
 * peaks stay. Of files that were named all is told. */
static bool is_exported(const struct records *records, size_t index, bool of_now) {
    bool over = records->lately && records->list[index]->state != PROCESS_RUNNING;
    return is_first(records, index) && !(of_now && over);
}

/* The part that stays the same from run to run: of "/usr/bin/python3 -u launch.py --lowvram"
 * launch.py, of "python -m comfy.cli" comfy.cli. */
struct named {
    char name[64], folder[64];
};

static struct named series_name(const struct vramgc_file *file) {
    struct named named;
    struct program_words program = program_of(file);
    struct text name = TEXT_IN(named.name);
    const char *word = program.command;
    if (strncmp(word, "-m ", 3) == 0)
        word += 3;
    else if (*word == '-')
        word = "python";
    text_add_n(&name, word, strcspn(word, " "));
    text_copy(named.folder, sizeof named.folder, program.folder);
    return named;
}

/* Those that run, in the order of their start; then those that have ended, the latest first: the
 * next run has the series of the one before it. */
static bool is_before(const struct records *records, size_t i, size_t j) {
    const struct vramgc_file *a = records->list[i]->file, *b = records->list[j]->file;
    bool runs = records->list[i]->state == PROCESS_RUNNING;
    if (runs != (records->list[j]->state == PROCESS_RUNNING))
        return runs;
    if (a->started_unix_ns != b->started_unix_ns)
        return (a->started_unix_ns < b->started_unix_ns) == runs;
    return a->pid != b->pid ? a->pid < b->pid : i < j; /* a copy */
}

/* Which one of several of the same name. */
static size_t series_slot(const struct records *records, size_t index,
                          const struct named *program) {
    size_t slot = 0;
    for (size_t i = 0; i < records->count; i++) {
        struct named other = series_name(records->list[i]->file);
        slot += i != index && is_first(records, i) && strcmp(other.name, program->name) == 0 &&
                strcmp(other.folder, program->folder) == 0 && is_before(records, i, index);
    }
    return slot;
}

/* None of these may be new with each run: Prometheus keeps a series for each combination, for
 * weeks. What is new is a value: process_pid. device: NULL in a family of processes. */
static void write_labels(FILE *out, const struct records *records, size_t index,
                         const struct vramgc_device *device) {
    const struct vramgc_file *file = records->list[index]->file;
    struct named program = series_name(file);
    fputs("{program=\"", out);
    write_escaped(out, program.name, true);
    fputc('"', out);
    write_label(out, "folder", program.folder);
    fprintf(out, ",slot=\"%zu\"", series_slot(records, index, &program));
    if (!device)
        return;
    fprintf(out, ",device=\"%td\"", device - file->devices);
    write_label(out, "bus_id", device->bus_id);
}

static void write_sample_value(FILE *out, enum unit unit, uint64_t value) {
    if (unit == UNIT_NS)
        fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", value / 1000000000, value % 1000000000);
    else
        fprintf(out, "} %" PRIu64 "\n", value);
}

static uint64_t value_of(const struct family *family, const struct vramgc_file *file,
                         const struct vramgc_device *device) {
    if (family->host)
        return host_figure(family->host, family->peak ? &file->host.peak : &file->host.latest);
    struct vramgc_gauge value =
        stat_value(family->stat, device ? (const void *)&device->stats : &file->process);
    return family->peak ? value.peak : value.current;
}

static void write_sample(FILE *out, const struct family *family, const struct records *records,
                         size_t index, const struct vramgc_device *device) {
    write_family_name(out, family);
    write_labels(out, records, index, device);
    write_sample_value(out, family->unit, value_of(family, records->list[index]->file, device));
}

static void write_family(FILE *out, const struct records *records, const struct family *family) {
    bool of_process = family->host || family->stat->group == STAT_PROCESS_TOTAL;
    bool of_now = !family->peak && (family->host || family->stat->group == STAT_DEVICE_GAUGE);
    write_family_head(out, family);
    for (size_t i = 0; i < records->count; i++) {
        const struct vramgc_file *file = records->list[i]->file;
        if (!is_exported(records, i, of_now))
            continue;
        if (of_process)
            write_sample(out, family, records, i, NULL);
        for (size_t j = 0; !of_process && j < file->device_count; j++)
            if (file->devices[j].present)
                write_sample(out, family, records, i, &file->devices[j]);
    }
}

static void export_stat(FILE *out, const struct records *records, const struct stat_info *stat) {
    bool total = stat->group != STAT_DEVICE_GAUGE;
    struct family family = {
        stat->name, total ? "_total" : "", total ? "counter" : "gauge", stat->help,
        stat->unit, .stat = stat};
    write_family(out, records, &family);
    family.suffix = "_peak";
    family.peak = true;
    if (stat->group == STAT_DEVICE_GAUGE)
        write_family(out, records, &family);
}

/* vramgc_host_anon_bytes when it was last looked at, vramgc_host_peak_anon_bytes at its peak. */
static void export_host(FILE *out, const struct records *records, bool peak) {
    for (size_t i = 0; i < HOST_FIGURES; i++) {
        const struct host_figure *figure = &host_figures[i];
        char name[64];
        snprintf(name, sizeof name, "host_%s%s", peak ? "peak_" : "", figure->name);
        const struct family family = {
            name, "", "gauge", figure->help, UNIT_BYTES, .host = figure, .peak = peak};
        write_family(out, records, &family);
    }
}

/* utilisation_percent is utilisation_ratio here. */
static void export_derived(FILE *out, const struct records *records, enum derived_id id) {
    const char *of = derived_table[id].name, *percent = strstr(of, "_percent");
    char name[64];
    snprintf(name, sizeof name, "%.*s_ratio%s", percent ? (int)(percent - of) : 0, of,
             percent ? percent + strlen("_percent") : "");
    const struct family family = {.name = percent ? name : of,
                                  .suffix = "",
                                  .type = "gauge",
                                  .help = derived_table[id].help,
                                  .unit = UNIT_COUNT};
    write_family_head(out, &family);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0;
             is_exported(records, i, true) && j < records->list[i]->file->device_count; j++) {
            const struct vramgc_device *device = &records->list[i]->file->devices[j];
            struct derived figure = derived_figure(id, device);
            if (!device->present || !figure.known)
                continue;
            write_family_name(out, &family);
            write_labels(out, records, i, device);
            fprintf(out, "} %.10g\n", percent ? figure.value / 100 : figure.value);
        }
}

static void export_info(FILE *out, const struct records *records) {
    const struct family family = {
        .name = "process",
        .suffix = "_info",
        .type = "gauge",
        .help = "a process under vramgc; 1 while it runs, 0 for five minutes after its end",
        .unit = UNIT_COUNT};
    write_family_head(out, &family);
    for (size_t i = 0; i < records->count; i++) {
        const struct vramgc_file *file = records->list[i]->file;
        if (!is_first(records, i))
            continue;
        write_family_name(out, &family);
        write_labels(out, records, i, NULL);
        write_label(out, "version", file->version);
        write_label(out, "torch", file->torch_version);
        write_label(out, "mode", file->mode);
        write_sample_value(out, UNIT_COUNT, records->list[i]->state == PROCESS_RUNNING);
    }
}

static void write_of_process(FILE *out, const struct records *records, const struct family *family,
                             uint64_t (*value)(const struct vramgc_file *file)) {
    write_family_head(out, family);
    for (size_t i = 0; i < records->count; i++) {
        if (!is_first(records, i))
            continue;
        write_family_name(out, family);
        write_labels(out, records, i, NULL);
        write_sample_value(out, family->unit, value(records->list[i]->file));
    }
}

static uint64_t pid_of(const struct vramgc_file *file) {
    return file->pid;
}

static uint64_t started_of(const struct vramgc_file *file) {
    return file->started_unix_ns;
}

/* An out-of-memory as the report and alerts call it. Without one there is no sample. */
static void write_latest_oom(FILE *out, const struct records *records) {
    const struct family family = {
        .name = "latest_oom_time_ns",
        .suffix = "",
        .type = "gauge",
        .help = "when the program was last out of memory, since 1970; none: it never was",
        .unit = UNIT_NS};
    write_family_head(out, &family);
    for (size_t i = 0; i < records->count; i++) {
        struct tally tally = tally_of(&records->list[i], 1);
        if (!is_first(records, i) || !tally.failed_refusal || tally_all_went_on(&tally))
            continue;
        write_family_name(out, &family);
        write_labels(out, records, i, NULL);
        write_sample_value(out, family.unit,
                           records->list[i]->file->started_unix_ns + tally.failed_refusal->time_ns);
    }
}

static void export_processes(FILE *out, const struct records *records) {
    const struct family number = {.name = "process_pid",
                                  .suffix = "",
                                  .type = "gauge",
                                  .help = "number of the process",
                                  .unit = UNIT_COUNT};
    const struct family start = {.name = "process_start_time_ns",
                                 .suffix = "",
                                 .type = "gauge",
                                 .help = "when the record of the process began, since 1970",
                                 .unit = UNIT_NS};
    write_of_process(out, records, &number, pid_of);
    write_of_process(out, records, &start, started_of);
}

static void export_memory(FILE *out, const struct records *records) {
    const struct family family = {.name = "device_memory",
                                  .suffix = "_bytes",
                                  .type = "gauge",
                                  .help = "memory of the device",
                                  .unit = UNIT_COUNT};
    write_family_head(out, &family);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0;
             is_exported(records, i, true) && j < records->list[i]->file->device_count; j++) {
            const struct vramgc_device *device = &records->list[i]->file->devices[j];
            if (!device->present)
                continue;
            write_family_name(out, &family);
            write_labels(out, records, i, device);
            write_label(out, "name", device->name);
            write_sample_value(out, UNIT_COUNT, device->total_bytes);
        }
}

/* `vramgc set` changes them while the program runs. */
static void export_limits(FILE *out, const struct records *records, bool cap) {
    const struct family family = {.name = cap ? "cap" : "headroom",
                                  .suffix = "_bytes",
                                  .type = "gauge",
                                  .help = cap ? "VRAMGC_CAP in force: the size of the card that "
                                                "the program sees; 0: its own"
                                              : "VRAMGC_HEADROOM in force: so much stays free for "
                                                "others",
                                  .unit = UNIT_COUNT};
    write_family_head(out, &family);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0;
             is_exported(records, i, true) && j < records->list[i]->file->device_count; j++) {
            const struct vramgc_file *file = records->list[i]->file;
            if (!file->devices[j].present)
                continue;
            write_family_name(out, &family);
            write_labels(out, records, i, &file->devices[j]);
            write_sample_value(out, UNIT_COUNT,
                               amount_bytes(cap ? file->limits.cap : file->limits.headroom,
                                            file->devices[j].total_bytes));
        }
}

void export_prometheus(FILE *out, const struct records *records) {
    export_info(out, records);
    export_processes(out, records);
    write_latest_oom(out, records);
    export_memory(out, records);
    export_limits(out, records, false);
    export_limits(out, records, true);
    for (size_t i = 0; i < stat_count; i++)
        if (stat_table[i].group != STAT_DEVICE_SUM)
            export_stat(out, records, &stat_table[i]);
    export_host(out, records, false);
    export_host(out, records, true);
    for (size_t i = 0; i < DERIVED_COUNT; i++)
        export_derived(out, records, (enum derived_id)i);
}
