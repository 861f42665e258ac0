/* export_prometheus.c: each figure as Prometheus wants it: base units (seconds, ratios), _total for
 * what only grows, and a family's samples in one piece. A figure's meaning is that of the tables.
 */
#include "show/export_formats.h"
#include "read/derived.h"
#include "show/host_block.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* One family. read: of a device, or of a process. */
struct family {
    const char *name, *suffix, *type, *help;
    enum unit unit;
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
static void write_name(FILE *out, const struct family *family) {
    size_t length = strlen(family->name);
    bool is_time = family->unit == UNIT_NS && length > 3;
    fprintf(out, "vramgc_%.*s%s%s", (int)(is_time ? length - 3 : length), family->name,
            is_time ? "_seconds" : "", family->suffix);
}

static void write_head(FILE *out, const struct family *family) {
    fputs("# HELP ", out);
    write_name(out, family);
    fputc(' ', out);
    write_escaped(out, family->help, false);
    fputs("\n# TYPE ", out);
    write_name(out, family);
    fprintf(out, " %s\n", family->type);
}

static void write_process_labels(FILE *out, const struct stats_file *record) {
    fprintf(out, "{pid=\"%" PRIu64 "\"", record->file->pid);
    write_label(out, "file", record->path);
}

static void write_device_labels(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    write_process_labels(out, record);
    fprintf(out, ",device=\"%zu\"", index);
    write_label(out, "bus_id", device->bus_id);
}

static void write_value(FILE *out, enum unit unit, uint64_t value) {
    if (unit == UNIT_NS)
        fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", value / 1000000000, value % 1000000000);
    else
        fprintf(out, "} %" PRIu64 "\n", value);
}

/* The same file given twice would be the same sample twice, which Prometheus takes none of. */
static bool is_first(const struct records *records, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(records->list[i]->path, records->list[index]->path) == 0)
            return false;
    return true;
}

/* offset: of the 64-bit figure in struct vramgc_device_stats. */
static void write_device_family(FILE *out, const struct records *records,
                                const struct family *family, size_t offset) {
    write_head(out, family);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; is_first(records, i) && j < records->list[i]->file->device_count; j++) {
            const struct vramgc_device *device = &records->list[i]->file->devices[j];
            uint64_t value;
            if (!device->present)
                continue;
            memcpy(&value, (const char *)&device->stats + offset, sizeof value);
            write_name(out, family);
            write_device_labels(out, records->list[i], j);
            write_value(out, family->unit, value);
        }
}

/* offset: in struct vramgc_file. */
static void write_process_family(FILE *out, const struct records *records,
                                 const struct family *family, size_t offset) {
    write_head(out, family);
    for (size_t i = 0; i < records->count; i++) {
        uint64_t value;
        if (!is_first(records, i))
            continue;
        memcpy(&value, (const char *)records->list[i]->file + offset, sizeof value);
        write_name(out, family);
        write_process_labels(out, records->list[i]);
        write_value(out, family->unit, value);
    }
}

static void write_gauge(FILE *out, const struct records *records, const struct family *family,
                        size_t offset) {
    struct family peak = *family;
    peak.suffix = "_peak";
    write_device_family(out, records, family, offset + offsetof(struct vramgc_gauge, current));
    write_device_family(out, records, &peak, offset + offsetof(struct vramgc_gauge, peak));
}

/* Sums of thousandths and of KiB serve only the figures that are derived from them. */
static bool is_raw(const char *name) {
    return strncmp(name, "held_over_live_", 15) == 0 || strstr(name, "_sum_kib") != NULL;
}

static void write_total(FILE *out, const struct records *records, const struct family *family,
                        size_t offset) {
    if (!is_raw(family->name))
        write_device_family(out, records, family, offset);
}

static void write_figures(FILE *out, const struct records *records) {
#define FAMILY(name, suffix, type, unit, help)                                                     \
    &(const struct family) {                                                                       \
#name, suffix, type, help, UNIT_##unit                                                     \
    }
#define DEVICE_GAUGE(name, unit, help)                                                             \
    write_gauge(out, records, FAMILY(name, "", "gauge", unit, help),                               \
                offsetof(struct vramgc_device_stats, name));
#define DEVICE_TOTAL(name, unit, help)                                                             \
    write_total(out, records, FAMILY(name, "_total", "counter", unit, help),                       \
                offsetof(struct vramgc_device_stats, name));
#define PROCESS_TOTAL(name, unit, help)                                                            \
    write_process_family(out, records, FAMILY(name, "_total", "counter", unit, help),              \
                         offsetof(struct vramgc_file, process.name));
#include "stats.def"
#undef DEVICE_GAUGE
#undef DEVICE_TOTAL
#undef PROCESS_TOTAL
}

/* vramgc_host_anon_bytes when it was last looked at, vramgc_host_peak_anon_bytes at its peak. */
static void write_host(FILE *out, const struct records *records, const char *when, size_t look) {
    for (size_t i = 0; i < HOST_FIGURES; i++) {
        char name[64];
        struct text text = TEXT_IN(name);
        text_format(&text, "host_%s%s", when, host_figures[i].name);
        const struct family family = {name, "", "gauge", host_figures[i].help, UNIT_BYTES};
        write_process_family(out, records, &family, look + host_figures[i].offset);
    }
}

/* utilisation_percent is utilisation_ratio here. */
static void write_derived(FILE *out, const struct records *records, enum derived_id id) {
    const char *percent = strstr(derived_table[id].name, "_percent");
    char name[64];
    struct text text = TEXT_IN(name);
    text_add_n(&text, derived_table[id].name,
               percent ? (size_t)(percent - derived_table[id].name)
                       : strlen(derived_table[id].name));
    text_add(&text, percent ? "_ratio" : "");
    text_add(&text, percent ? percent + strlen("_percent") : "");
    const struct family family = {name, "", "gauge", derived_table[id].help, UNIT_COUNT};
    write_head(out, &family);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; is_first(records, i) && j < records->list[i]->file->device_count; j++) {
            struct derived figure = derived_figure(id, &records->list[i]->file->devices[j]);
            if (!records->list[i]->file->devices[j].present || !figure.known)
                continue;
            write_name(out, &family);
            write_device_labels(out, records->list[i], j);
            fprintf(out, "} %.10g\n", percent ? figure.value / 100 : figure.value);
        }
}

static void write_info(FILE *out, const struct records *records) {
    const struct family family = {"process", "_info", "gauge",
                                  "a process under vramgc; 1 while it runs, 0 when it has ended",
                                  UNIT_COUNT};
    write_head(out, &family);
    for (size_t i = 0; i < records->count; i++) {
        const struct vramgc_file *file = records->list[i]->file;
        if (!is_first(records, i))
            continue;
        write_name(out, &family);
        write_process_labels(out, records->list[i]);
        write_label(out, "command", file->command_line);
        write_label(out, "version", file->version);
        write_label(out, "torch", file->torch_version);
        write_label(out, "mode", file->mode);
        write_value(out, UNIT_COUNT, records->list[i]->state == PROCESS_RUNNING);
    }
}

static void write_memory(FILE *out, const struct records *records) {
    const struct family family = {"device_memory", "_bytes", "gauge", "memory of the device",
                                  UNIT_COUNT};
    write_head(out, &family);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; is_first(records, i) && j < records->list[i]->file->device_count; j++) {
            if (!records->list[i]->file->devices[j].present)
                continue;
            write_name(out, &family);
            write_device_labels(out, records->list[i], j);
            write_label(out, "name", records->list[i]->file->devices[j].name);
            write_value(out, UNIT_COUNT, records->list[i]->file->devices[j].total_bytes);
        }
}

void export_prometheus(FILE *out, const struct records *records) {
    write_info(out, records);
    write_memory(out, records);
    write_figures(out, records);
    write_host(out, records, "", offsetof(struct vramgc_file, host.latest));
    write_host(out, records, "peak_", offsetof(struct vramgc_file, host.peak));
    for (size_t i = 0; i < DERIVED_COUNT; i++)
        write_derived(out, records, (enum derived_id)i);
}
