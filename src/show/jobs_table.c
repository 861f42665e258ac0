/* jobs_table.c: see jobs_table.h. It shows what the file says, and judges nothing. */
#include "show/jobs_table.h"
#include "show/summary_lines.h"
#include "read/units.h"
#include "base/base.h"

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
