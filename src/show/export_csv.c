/* export_csv.c: one table for each question that a spreadsheet is opened for. A field is quoted
 * whenever its text could be taken for something else. */
#include "show/export_formats.h"
#include "read/derived.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* A text that begins like a formula would be one: such a text gets an apostrophe before it. */
static void write_field(FILE *out, const char *text) {
    fputc('"', out);
    if (*text && strchr("=+-@", *text))
        fputc('\'', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_owner(FILE *out, const struct stats_file *record, size_t device) {
    write_field(out, record->path);
    fprintf(out, ",%" PRIu64 ",%zu", record->file->pid, device);
}

static void write_seconds(FILE *out, uint64_t ns) {
    fprintf(out, ",%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

static void write_word(FILE *out, const char *word) {
    fputc(',', out);
    write_field(out, word ? word : "unknown");
}

static void write_numbers(FILE *out, const uint64_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        fprintf(out, ",%" PRIu64, numbers[i]);
}

static void write_samples(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    for (size_t i = 0; i < device->sample_count; i++) {
        const struct vramgc_sample *s = &device->samples[i];
        const uint64_t numbers[] = {s->held_bytes, s->reserved_bytes, s->allocated_bytes,
                                    s->used_bytes};
        write_owner(out, record, index);
        write_seconds(out, s->time_ns);
        write_numbers(out, numbers, sizeof numbers / sizeof *numbers);
        fputs("\r\n", out);
    }
}

void export_timeline_csv(FILE *out, const struct records *records) {
    fputs("file,pid,device,time_s,held_bytes,reserved_bytes,allocated_bytes,used_bytes\r\n", out);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; j < records->list[i]->file->device_count; j++)
            write_samples(out, records->list[i], j);
}

static void write_figure(FILE *out, const struct stats_file *record, const char *device,
                         const char *name, enum unit unit) {
    write_field(out, record->path);
    fprintf(out, ",%" PRIu64 ",%s,%s,%s", record->file->pid, device, name, unit_name(unit));
}

static void write_gauge(FILE *out, const struct stats_file *record, const char *device,
                        const char *name, enum unit unit, const struct vramgc_gauge *gauge) {
    write_figure(out, record, device, name, unit);
    fprintf(out, ",%" PRIu64 ",%" PRIu64 "\r\n", gauge->current, gauge->peak);
}

static void write_total(FILE *out, const struct stats_file *record, const char *device,
                        const char *name, enum unit unit, uint64_t value) {
    write_figure(out, record, device, name, unit);
    fprintf(out, ",%" PRIu64 ",\r\n", value);
}

static void write_device_figures(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device_stats *s = &record->file->devices[index].stats;
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
#define DEVICE_GAUGE(name, unit, help)                                                             \
    write_gauge(out, record, number, #name, UNIT_##unit, &s->name);
#define DEVICE_TOTAL(name, unit, help)                                                             \
    write_total(out, record, number, #name, UNIT_##unit, s->name);
#define PROCESS_TOTAL(name, unit, help)
#include "stats.def"
#undef DEVICE_GAUGE
#undef DEVICE_TOTAL
#undef PROCESS_TOTAL
}

static void write_process_figures(FILE *out, const struct stats_file *record) {
    const struct vramgc_process_stats *s = &record->file->process;
#define DEVICE_GAUGE(name, unit, help)
#define DEVICE_TOTAL(name, unit, help)
#define PROCESS_TOTAL(name, unit, help) write_total(out, record, "", #name, UNIT_##unit, s->name);
#include "stats.def"
#undef DEVICE_GAUGE
#undef DEVICE_TOTAL
#undef PROCESS_TOTAL
}

void export_figures_csv(FILE *out, const struct records *records) {
    fputs("file,pid,device,figure,unit,value,peak\r\n", out);
    for (size_t i = 0; i < records->count; i++) {
        const struct stats_file *record = records->list[i];
        for (size_t j = 0; j < record->file->device_count; j++)
            if (record->file->devices[j].present)
                write_device_figures(out, record, j);
        write_process_figures(out, record);
    }
}

static void write_reclaim(FILE *out, const struct stats_file *record,
                          const struct vramgc_action *a) {
    const uint64_t numbers[] = {a->before_bytes, a->after_bytes, a->used_bytes, a->request_bytes};
    write_owner(out, record, a->device);
    write_seconds(out, a->time_ns);
    write_seconds(out, a->took_ns);
    write_word(out, stats_file_action_name(a->kind));
    write_word(out, stats_file_reason_name(a->reason));
    fprintf(out, ",%d", a->observed == 1);
    write_numbers(out, numbers, sizeof numbers / sizeof *numbers);
    write_word(out, a->function);
    fputs("\r\n", out);
}

void export_reclaims_csv(FILE *out, const struct records *records) {
    fputs("file,pid,device,time_s,took_s,kind,reason,observed,before_bytes,after_bytes,used_bytes,"
          "request_bytes,function\r\n",
          out);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; j < records->list[i]->action_count; j++)
            write_reclaim(out, records->list[i], records->list[i]->actions[j]);
}

static void write_refusal(FILE *out, const struct stats_file *record,
                          const struct vramgc_refusal *r) {
    const uint64_t numbers[] = {r->request_bytes,   r->free_bytes,    r->idle_bytes,
                                r->holes,           r->hole_bytes,    r->largest_hole_bytes,
                                r->allocated_bytes, r->reserved_bytes};
    const struct vramgc_file *file = record->file;
    write_owner(out, record, r->device);
    write_seconds(out, r->time_ns);
    write_word(out, stats_file_cause_name(r->cause));
    fprintf(out, ",%d", r->granted == 1);
    write_numbers(out, numbers, sizeof numbers / sizeof *numbers);
    write_word(out, r->hook < file->hook_count ? file->hooks[r->hook].name : NULL);
    fputs("\r\n", out);
}

void export_refusals_csv(FILE *out, const struct records *records) {
    fputs("file,pid,device,time_s,cause,granted,request_bytes,free_bytes,idle_bytes,holes,"
          "hole_bytes,largest_hole_bytes,allocated_bytes,reserved_bytes,function\r\n",
          out);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; j < records->list[i]->refusal_count; j++)
            write_refusal(out, records->list[i], records->list[i]->refusals[j]);
}

static void write_job(FILE *out, const struct stats_file *record, const struct vramgc_job *job) {
    const uint64_t numbers[] = {job->number,     job->peak_live_bytes, job->peak_held_bytes,
                                job->live_bytes, job->host_bytes,      job->pinned_bytes};
    write_owner(out, record, job->device);
    write_seconds(out, job->time_ns);
    write_seconds(out, job->took_ns);
    write_numbers(out, numbers, sizeof numbers / sizeof *numbers);
    fputs("\r\n", out);
}

void export_jobs_csv(FILE *out, const struct records *records) {
    fputs("file,pid,device,time_s,took_s,job,peak_live_bytes,peak_held_bytes,live_bytes,host_bytes,"
          "pinned_bytes\r\n",
          out);
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; j < records->list[i]->job_count; j++)
            write_job(out, records->list[i], records->list[i]->jobs[j]);
}
