/* jobs_table.c: see jobs_table.h. It shows what the file says, and judges nothing. */
#include "show/jobs_table.h"
#include "show/summary_lines.h"
#include "read/units.h"
#include "base/base.h"

void jobs_fields(struct emit *emit, const struct stats_file *record) {
    size_t count = emit_list(emit, "jobs",
                             "what the program did between two rests, where live memory rose and "
                             "fell meanwhile, oldest first",
                             record->job_count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_job *job =
            i < record->job_count ? record->jobs[i] : &record->file->jobs[0];
        emit_open_line(emit, NULL, "one job");
        emit_number(emit, "number", UNIT_ID, "of the device: 1, 2, ...", job->number);
        emit_number(emit, "device", UNIT_ID, "index", job->device);
        emit_number(emit, "time_ns", UNIT_NS, "when it began, since the start of the record",
                    job->time_ns);
        emit_number(emit, "took_ns", UNIT_NS, "until its last block event", job->took_ns);
        emit_number(emit, "peak_live_bytes", UNIT_BYTES, "most live memory", job->peak_live_bytes);
        emit_number(emit, "peak_held_bytes", UNIT_BYTES, "most that this process was seen to hold",
                    job->peak_held_bytes);
        emit_number(emit, "live_bytes", UNIT_BYTES, "live after it", job->live_bytes);
        emit_number_if(emit, "host_bytes", UNIT_BYTES,
                       "of the host after it: resident memory of the process but for mapped files",
                       job->host_bytes > 0, job->host_bytes);
        emit_number(emit, "pinned_bytes", UNIT_BYTES, "page-locked host memory after it",
                    job->pinned_bytes);
        emit_close(emit);
    }
    emit_close(emit);
}

static void write_job(FILE *out, const struct vramgc_job *job) {
    summary_line(out, "         %-10s %-3llu %5llu %8s %10s %9s %9s %9s",
                 show_clock(job->time_ns).text, (unsigned long long)job->device,
                 (unsigned long long)job->number, show_time(job->took_ns).text,
                 show_bytes(job->peak_live_bytes).text, show_bytes(job->peak_held_bytes).text,
                 show_bytes(job->live_bytes).text,
                 show_known(job->host_bytes > 0, job->host_bytes).text);
}

void jobs_table(FILE *out, const struct stats_file *record, size_t most) {
    if (record->job_count == 0)
        return;
    summary_line(out, "\nJOBS     %-10s %-3s %5s %8s %10s %9s %9s %9s", "at", "gpu", "job", "took",
                 "peak live", "peak held", "live then", "host then");
    for (size_t i = minus_u64(record->job_count, most); i < record->job_count; i++)
        write_job(out, record->jobs[i]);
}
