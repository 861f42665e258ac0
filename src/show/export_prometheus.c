/* export_prometheus.c: each figure as Prometheus wants it: base units (seconds, ratios), _total for
 * what only grows, and a family's samples in one piece. A figure's meaning is that of the tables.
 */
#include "show/export_formats.h"
#include "read/stats_file.h"
#include "read/derived.h"
#include "show/report_fields.h"
#include "show/summary.h"
#include "judge/tally.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"

#include <string.h>

/* A process, or one of its devices. */
struct subject {
    const struct records *records;
    size_t index;
    const struct vramgc_file *file;
    const struct vramgc_device *device; /* NULL: the process */
};

struct family {
    const char *name, *suffix, *type, *help;
    enum unit unit;
    bool of_device, of_now; /* of_now: a program that has ended has none */
    /* Where the value comes from: one of these. */
    uint64_t (*value)(const struct subject *of);
    const struct stat_info *stat;
    const struct host_figure *host;
    const struct derived_info *derived;
    bool peak;      /* its highest value */
    bool none_is_0; /* then there is no sample */
    void (*add_labels)(FILE *out, const struct subject *of);
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
static void write_labels(FILE *out, const struct subject *of) {
    struct named program = series_name(of->file);
    fputs("{program=\"", out);
    write_escaped(out, program.name, true);
    fputc('"', out);
    write_label(out, "folder", program.folder);
    fprintf(out, ",slot=\"%zu\"", series_slot(of->records, of->index, &program));
    if (!of->device)
        return;
    fprintf(out, ",device=\"%td\"", of->device - of->file->devices);
    write_label(out, "bus_id", of->device->bus_id);
}

/* ---- families of figures ---- */

static uint64_t value_of(const struct family *family, const struct subject *of) {
    if (family->value)
        return family->value(of);
    if (family->host)
        return host_figure(family->host,
                           family->peak ? &of->file->host.peak : &of->file->host.latest);
    const void *stats = of->device ? (const void *)&of->device->stats : &of->file->process;
    struct vramgc_gauge value = stat_value(family->stat, stats);
    return family->peak ? value.peak : value.current;
}

/* utilisation_percent is utilisation_ratio here. Empty: there is no sample. */
static struct figure show_ratio(const struct derived_info *info, const struct subject *of) {
    struct derived figure = derived_figure((enum derived_id)(info - derived_table), of->device);
    double value = strstr(info->name, "_percent") ? figure.value / 100 : figure.value;
    struct figure out = {""};
    if (figure.known)
        snprintf(out.text, sizeof out.text, "%.10g", value);
    return out;
}

static struct figure show_sample(const struct family *family, const struct subject *of) {
    if (family->derived)
        return show_ratio(family->derived, of);
    uint64_t value = value_of(family, of);
    struct figure out = {""};
    if (family->none_is_0 && value == 0)
        return out;
    if (family->unit == UNIT_NS)
        snprintf(out.text, sizeof out.text, "%lu.%09lu", value / SECOND_NS, value % SECOND_NS);
    else
        snprintf(out.text, sizeof out.text, "%lu", value);
    return out;
}

static void write_sample(FILE *out, const struct family *family, struct subject of) {
    struct figure value = show_sample(family, &of);
    if (!*value.text)
        return;
    write_family_name(out, family);
    write_labels(out, &of);
    if (family->add_labels)
        family->add_labels(out, &of);
    fprintf(out, "} %s\n", value.text);
}

static void write_family(FILE *out, const struct records *records, const struct family *family) {
    write_family_head(out, family);
    for (size_t i = 0; i < records->count; i++) {
        struct subject of = {records, i, records->list[i]->file, NULL};
        if (!is_exported(records, i, family->of_now))
            continue;
        if (!family->of_device)
            write_sample(out, family, of);
        for (size_t j = 0; family->of_device && j < of.file->device_count; j++) {
            of.device = &of.file->devices[j];
            if (of.device->present)
                write_sample(out, family, of);
        }
    }
}

static void export_stat(FILE *out, const struct records *records, const struct stat_info *stat) {
    bool gauge = stat->group == STAT_DEVICE_GAUGE;
    struct family family = {stat->name,
                            gauge ? "" : "_total",
                            gauge ? "gauge" : "counter",
                            stat->help,
                            stat->unit,
                            .stat = stat,
                            .of_now = gauge,
                            .of_device = stat->group != STAT_PROCESS_TOTAL};
    write_family(out, records, &family);
    family.suffix = "_peak";
    family.peak = true;
    family.of_now = false;
    if (gauge)
        write_family(out, records, &family);
}

/* vramgc_host_anon_bytes when it was last looked at, vramgc_host_peak_anon_bytes at its peak. */
static void export_host(FILE *out, const struct records *records, bool peak) {
    for (size_t i = 0; i < HOST_FIGURES; i++) {
        const struct host_figure *figure = &host_figures[i];
        char name[64];
        snprintf(name, sizeof name, "host_%s%s", peak ? "peak_" : "", figure->name);
        const struct family family = {
            name,           "",           "gauge",        figure->help, UNIT_BYTES,
            .host = figure, .peak = peak, .of_now = !peak};
        write_family(out, records, &family);
    }
}

static void export_derived(FILE *out, const struct records *records,
                           const struct derived_info *info) {
    const char *of = info->name, *percent = strstr(of, "_percent");
    char name[64];
    snprintf(name, sizeof name, "%.*s_ratio%s", percent ? (int)(percent - of) : 0, of,
             percent ? percent + strlen("_percent") : "");
    const struct family family = {percent ? name : of,
                                  "",
                                  "gauge",
                                  info->help,
                                  UNIT_COUNT,
                                  .derived = info,
                                  .of_device = true,
                                  .of_now = true};
    write_family(out, records, &family);
}

/* ---- families of their own ---- */

static uint64_t runs_now(const struct subject *of) {
    return of->records->list[of->index]->state == PROCESS_RUNNING;
}

static void add_versions(FILE *out, const struct subject *of) {
    write_label(out, "version", of->file->version);
    write_label(out, "torch", of->file->torch_version);
    write_label(out, "mode", of->file->mode);
}

static uint64_t pid_of(const struct subject *of) {
    return of->file->pid;
}

static uint64_t started_of(const struct subject *of) {
    return of->file->started_unix_ns;
}

/* An out-of-memory as the report and alerts call it. */
static uint64_t latest_oom_of(const struct subject *of) {
    struct tally tally = tally_of(&of->records->list[of->index], 1);
    if (!tally.failed_refusal || tally_all_went_on(&tally))
        return 0;
    return of->file->started_unix_ns + tally.failed_refusal->time_ns;
}

static uint64_t total_of(const struct subject *of) {
    return of->device->total_bytes;
}

static void add_device_name(FILE *out, const struct subject *of) {
    write_label(out, "name", of->device->name);
}

/* `vramgc set` changes these two while the program runs. */
static uint64_t headroom_of(const struct subject *of) {
    return amount_bytes(of->file->limits.headroom, of->device->total_bytes);
}

static uint64_t cap_of(const struct subject *of) {
    return amount_bytes(of->file->limits.cap, of->device->total_bytes);
}

static const struct family own_families[] = {
    {"process_info", "", "gauge",
     "a process under vramgc; 1 while it runs, 0 for five minutes after its end", UNIT_COUNT,
     .value = runs_now, .add_labels = add_versions},
    {"process_pid", "", "gauge", "number of the process", UNIT_COUNT, .value = pid_of},
    {"process_start_time_ns", "", "gauge", "when the record of the process began, since 1970",
     UNIT_NS, .value = started_of},
    {"latest_oom_time_ns", "", "gauge",
     "when the program was last out of memory, since 1970; none: it never was", UNIT_NS,
     .value = latest_oom_of, .none_is_0 = true},
    {"device_memory_bytes", "", "gauge", "memory of the device", UNIT_COUNT, true, true,
     .value = total_of, .add_labels = add_device_name},
    {"headroom_bytes", "", "gauge", "VRAMGC_HEADROOM in force: so much stays free for others",
     UNIT_COUNT, true, true, .value = headroom_of},
    {"cap_bytes", "", "gauge",
     "VRAMGC_CAP in force: the size of the card that the program sees; 0: its own", UNIT_COUNT,
     true, true, .value = cap_of},
};

void export_prometheus(FILE *out, const struct records *records) {
    for (size_t i = 0; i < ARRAY_LENGTH(own_families); i++)
        write_family(out, records, &own_families[i]);
    for (size_t i = 0; i < stat_count; i++)
        if (stat_table[i].group != STAT_DEVICE_SUM)
            export_stat(out, records, &stat_table[i]);
    export_host(out, records, false);
    export_host(out, records, true);
    for (size_t i = 0; i < DERIVED_COUNT; i++)
        export_derived(out, records, &derived_table[i]);
}
