/* export_perfetto.c: a record as a trace: counters for the memory of each device, a slice for each
 * reclaim, an instant for each refusal and mark. Times are microseconds since the first record
 * began, so that the processes of one run stand side by side. */
#include "show/export_formats.h"
#include "show/report_fields.h"
#include "base/base.h"

enum { TRACK_MARKS = 0, TRACK_DEVICES = 1 }; /* thread ids: marks, then one for each device */

struct trace {
    struct emit emit;
    const struct stats_file *record;
    uint64_t from_ns; /* CLOCK_MONOTONIC of the trace's beginning */
};

/* Opens an event; the caller adds what belongs to its kind, and closes it. */
static struct emit *begin_event(struct trace *trace, const char *phase, const char *name,
                                size_t track) {
    struct emit *emit = &trace->emit;
    emit_open_line(emit, NULL, "");
    emit_text(emit, "ph", "", phase);
    emit_label(emit, "name", "", name);
    emit_number(emit, "pid", UNIT_ID, "", trace->record->file->pid);
    emit_number(emit, "tid", UNIT_ID, "", track);
    return emit;
}

static void add_time(struct trace *trace, uint64_t time_ns) {
    uint64_t began_ns = minus_u64(trace->record->file->started_ns, trace->from_ns);
    emit_number(&trace->emit, "ts", UNIT_ID, "", (began_ns + time_ns) / 1000);
}

static void trace_name(struct trace *trace, const char *what, size_t track, const char *name) {
    struct emit *emit = begin_event(trace, "M", what, track);
    emit_open_line(emit, "args", "");
    emit_label(emit, "name", "", name);
    emit_close(emit);
    emit_close(emit);
}

static void trace_counter(struct trace *trace, size_t device, const char *what, uint64_t time_ns,
                          uint64_t bytes) {
    char name[48];
    snprintf(name, sizeof name, "GPU %zu %s", device, what);
    struct emit *emit = begin_event(trace, "C", name, TRACK_MARKS);
    add_time(trace, time_ns);
    emit_open_line(emit, "args", "");
    emit_number(emit, "bytes", UNIT_BYTES, "", bytes);
    emit_close(emit);
    emit_close(emit);
}

static void trace_device(struct trace *trace, size_t index) {
    const struct vramgc_device *device = &trace->record->file->devices[index];
    char name[96];
    snprintf(name, sizeof name, "GPU %zu %s: reclaims, refusals", index, device->name);
    trace_name(trace, "thread_name", TRACK_DEVICES + index, name);
    for (size_t i = 0; i < device->sample_count; i++) {
        const struct vramgc_sample *sample = &device->samples[i];
        trace_counter(trace, index, "live", sample->time_ns, sample->allocated_bytes);
        trace_counter(trace, index, "held", sample->time_ns, sample->held_bytes);
        trace_counter(trace, index, "reserved", sample->time_ns, sample->reserved_bytes);
        trace_counter(trace, index, "used by all", sample->time_ns, sample->used_bytes);
    }
}

static void trace_reclaim(struct trace *trace, const struct vramgc_action *a) {
    char name[64];
    const char *kind = stats_file_action_name(a->kind);
    snprintf(name, sizeof name, "%s%s", a->observed == 1 ? "observed " : "reclaim by ",
             kind ? kind : "unknown");
    struct emit *emit = begin_event(trace, "X", name, TRACK_DEVICES + a->device);
    add_time(trace, a->time_ns);
    emit_number(emit, "dur", UNIT_ID, "", a->took_ns / 1000);
    emit_open_line(emit, "args", "");
    record_columns(emit, &action_type,
                   "reason,function,before_bytes,after_bytes,used_bytes,request_bytes",
                   trace->record->file, a);
    emit_close(emit);
    emit_close(emit);
}

static void trace_refusal(struct trace *trace, const struct vramgc_refusal *r) {
    struct emit *emit =
        begin_event(trace, "i", r->granted == 1 ? "refused, then granted" : "refused",
                    TRACK_DEVICES + r->device);
    add_time(trace, r->time_ns);
    emit_text(emit, "s", "", "t");
    emit_open_line(emit, "args", "");
    record_columns(emit, &refusal_type,
                   "cause,request_bytes,free_bytes,idle_bytes,largest_hole_bytes,allocated_bytes",
                   trace->record->file, r);
    emit_close(emit);
    emit_close(emit);
}

static void trace_mark(struct trace *trace, const struct vramgc_mark *mark) {
    struct emit *emit = begin_event(trace, "i", mark->label, TRACK_MARKS);
    add_time(trace, mark->time_ns);
    emit_text(emit, "s", "", "p");
    emit_close(emit);
}

static void trace_record(struct trace *trace) {
    const struct stats_file *record = trace->record;
    trace_name(trace, "process_name", TRACK_MARKS, record->file->command_line);
    trace_name(trace, "thread_name", TRACK_MARKS, "marks");
    for (size_t i = 0; i < record->file->device_count; i++)
        if (record->file->devices[i].present)
            trace_device(trace, i);
    for (size_t i = 0; i < record->action_count; i++)
        trace_reclaim(trace, record->actions[i]);
    for (size_t i = 0; i < record->refusal_count; i++)
        trace_refusal(trace, record->refusals[i]);
    for (size_t i = 0; i < record->mark_count; i++)
        trace_mark(trace, record->marks[i]);
}

void export_perfetto(FILE *out, const struct records *records) {
    struct trace trace = {.from_ns = UINT64_MAX};
    for (size_t i = 0; i < records->count; i++)
        trace.from_ns = min_u64(trace.from_ns, records->list[i]->file->started_ns);
    emit_begin(&trace.emit, out, EMIT_JSON, "");
    emit_text(&trace.emit, "displayTimeUnit", "", "ms");
    emit_list(&trace.emit, "traceEvents", "", records->count);
    for (size_t i = 0; i < records->count; i++) {
        trace.record = records->list[i];
        trace_record(&trace);
    }
    emit_close(&trace.emit);
    emit_end(&trace.emit);
}
