/* export_csv.c: one table for each question that a spreadsheet is opened for. What a column holds
 * is said in record_fields.c, under its name. */
#include "show/export_formats.h"
#include "show/record_fields.h"
#include "read/derived.h"

#include <inttypes.h>

#define OWNER "file,pid,"

/* Opens a row; the caller adds what belongs to its table, and closes it. */
static void open_row(struct emit *emit, const struct stats_file *record) {
    emit_open_line(emit, NULL, "");
    emit_label(emit, NULL, "", record->path);
    emit_number(emit, NULL, UNIT_ID, "", record->file->pid);
}

static void write_samples(struct emit *emit, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    for (size_t i = 0; i < device->sample_count; i++) {
        const struct vramgc_sample *sample = &device->samples[i];
        open_row(emit, record);
        emit_number(emit, NULL, UNIT_ID, "", index);
        emit_number(emit, NULL, UNIT_NS, "", sample->time_ns);
        emit_number(emit, NULL, UNIT_BYTES, "", sample->held_bytes);
        emit_number(emit, NULL, UNIT_BYTES, "", sample->reserved_bytes);
        emit_number(emit, NULL, UNIT_BYTES, "", sample->allocated_bytes);
        emit_number(emit, NULL, UNIT_BYTES, "", sample->used_bytes);
        emit_close(emit);
    }
}

void export_timeline_csv(FILE *out, const struct records *records) {
    struct emit emit;
    emit_begin(&emit, out, EMIT_CSV,
               OWNER "device,time_s,held_bytes,reserved_bytes,allocated_bytes,used_bytes");
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; j < records->list[i]->file->device_count; j++)
            write_samples(&emit, records->list[i], j);
}

/* device: its index, or "" of the process. */
static void write_figure(struct emit *emit, const struct stats_file *record, const char *device,
                         const struct stat_info *stat, const void *stats) {
    struct vramgc_gauge value = stat_value(stat, stats);
    open_row(emit, record);
    fprintf(emit->out, ",%s,%s,%s,%" PRIu64 ",", device, stat->name, unit_name(stat->unit),
            value.current);
    if (stat->group == STAT_DEVICE_GAUGE)
        fprintf(emit->out, "%" PRIu64, value.peak);
    emit_close(emit);
}

static void write_figures(struct emit *emit, const struct stats_file *record, const char *device,
                          bool of_process, const void *stats) {
    for (size_t i = 0; i < stat_count; i++)
        if ((stat_table[i].group == STAT_PROCESS_TOTAL) == of_process)
            write_figure(emit, record, device, &stat_table[i], stats);
}

void export_figures_csv(FILE *out, const struct records *records) {
    struct emit emit;
    emit_begin(&emit, out, EMIT_CSV, OWNER "device,figure,unit,value,peak");
    for (size_t i = 0; i < records->count; i++) {
        const struct vramgc_file *file = records->list[i]->file;
        for (size_t j = 0; j < file->device_count; j++) {
            char index[24];
            snprintf(index, sizeof index, "%zu", j);
            if (file->devices[j].present)
                write_figures(&emit, records->list[i], index, false, &file->devices[j].stats);
        }
        write_figures(&emit, records->list[i], "", true, &file->process);
    }
}

static void write_entries(FILE *out, const struct records *records, const struct record_type *type,
                          const char *head, const char *columns) {
    struct emit emit;
    emit_begin(&emit, out, EMIT_CSV, head);
    for (size_t i = 0; i < records->count; i++) {
        struct record_list list = record_entries(records->list[i], type);
        for (size_t j = 0; j < list.count; j++) {
            open_row(&emit, records->list[i]);
            record_columns(&emit, type, columns, records->list[i]->file, record_of(&list, j));
            emit_close(&emit);
        }
    }
}

#define RECLAIMS                                                                                   \
    "device,time_s,took_s,kind,reason,observed,before_bytes,after_bytes,used_bytes,"               \
    "request_bytes,function"

void export_reclaims_csv(FILE *out, const struct records *records) {
    write_entries(out, records, &action_type, OWNER RECLAIMS, RECLAIMS);
}

#define REFUSALS                                                                                   \
    "device,time_s,cause,granted,request_bytes,free_bytes,idle_bytes,holes,hole_bytes,"            \
    "largest_hole_bytes,allocated_bytes,reserved_bytes,function"

void export_refusals_csv(FILE *out, const struct records *records) {
    write_entries(out, records, &refusal_type, OWNER REFUSALS, REFUSALS);
}

#define JOBS(number)                                                                               \
    "device,time_s,took_s," number ",peak_live_bytes,peak_held_bytes,live_bytes,host_bytes,"       \
    "pinned_bytes"

void export_jobs_csv(FILE *out, const struct records *records) {
    write_entries(out, records, &job_type, OWNER JOBS("job"), JOBS("number"));
}
