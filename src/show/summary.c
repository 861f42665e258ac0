/* summary.c: see summary.h. It shows figures and computes none; those come from derived.h. */
#include "show/summary.h"
#include "judge/cause.h"
#include "show/device_table.h"
#include "judge/growers.h"
#include "show/summary_lines.h"
#include "judge/who.h"
#include "judge/verdict.h"
#include "read/derived.h"
#include "base/base.h"
#include "base/standards.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct figure summary_end(const struct stats_file *record) {
    static const char *const words[PROCESS_STATES] = {
        [PROCESS_RUNNING] = "still running",
        [PROCESS_REPLACED] = "replaced by exec",
        [PROCESS_VANISHED] = "ended, status unknown",
    };
    const char *again = record->again ? ", started again" : "";
    if (record->state == PROCESS_EXITED)
        return show_words("exit %d%s", record->code, again);
    if (record->state == PROCESS_KILLED)
        return show_words("killed by %s%s", show_signal(record->signal).text, again);
    return show_words("%s%s", words[record->state], again);
}

static struct figure show_command_end(const struct launch_facts *launch) {
    const char *why = launch->interrupted ? "stopped by Ctrl-C, " : "";
    if (WIFSIGNALED(launch->wait_status))
        return show_words("%skilled by %s", why, show_signal(WTERMSIG(launch->wait_status)).text);
    return show_words("%sexit %d", why, WEXITSTATUS(launch->wait_status));
}

size_t summary_shorten(const char **command, size_t columns) {
    const size_t mark = 2;
    const char *slash = memrchr(*command, '/', strcspn(*command, " "));
    if (slash && (*command)[bytes_of_columns(*command, columns)])
        *command = slash + 1;
    size_t length = bytes_of_columns(*command, columns);
    return (*command)[length] ? bytes_of_columns(*command, columns - mark) : length;
}

/* The command, shortened where it must be, then right at the right edge. */
static void write_edges(FILE *out, const char *left, const char *right) {
    size_t room = minus_u64(SUMMARY_WIDTH - 2, strlen(right));
    size_t length = room > 2 ? summary_shorten(&left, room) : 0;
    const char *mark = room > 2 && left[length] ? ".." : "";
    int pad = (int)(room - columns_of_bytes(left, length) - strlen(mark));
    fprintf(out, "%.*s%s%*s  %.*s\n", (int)length, left, mark, pad, "", SUMMARY_WIDTH - 2, right);
}

/* When, and how long. The program runs before its first use of CUDA, too, where the record begins,
 * and with it the times below: told where that is not little, and there is room. */
static void summary_title(FILE *out, const struct launch_facts *launch,
                          const struct stats_file *record) {
    enum { LITTLE = 10 };
    char line[SUMMARY_WIDTH + 1], when[SUMMARY_WIDTH], since[SUMMARY_WIDTH];
    struct text head = TEXT_IN(line), text = TEXT_IN(when), more = TEXT_IN(since);
    uint64_t all_ns = launch ? launch->elapsed_ns : stats_file_ran_ns(record);
    uint64_t differs_ns = max_u64(all_ns, record->elapsed_ns) - min_u64(all_ns, record->elapsed_ns);
    text_format(&head, "-- vramgc %s ", VRAMGC_VERSION);
    text_format(&text, " %s, ran %s", show_date(stats_file_began_unix_ns(record)).text,
                show_time(all_ns).text);
    text_format(&more, ", %s since CUDA began", show_time(record->elapsed_ns).text);
    if (differs_ns > all_ns / LITTLE && record->elapsed_ns > 0 &&
        head.length + text.length + more.length <= SUMMARY_WIDTH)
        text_add(&text, since);
    while (head.length + text.length < SUMMARY_WIDTH)
        text_add(&head, "-");
    fprintf(out, "%s%s\n", line, when);
}

static void write_process(FILE *out, const struct stats_file *record, bool with_held) {
    TEXT_OVER(text, right, 96);
    text_format(&text, "pid %lu   ", record->file->pid);
    if (with_held)
        text_format(&text, "held %s   ", show_bytes(to_u64(stats_file_held_peak(record))).text);
    text_add(&text, summary_end(record).text);
    write_edges(out, record->file->command_line, right);
}

/* As a shell passes it on, too. */
static bool ended_alike(const struct stats_file *record, int status) {
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return code == (record->state == PROCESS_KILLED ? 128 + record->signal : record->code);
}

/* The command has a line where it ended otherwise than its only process, which it may have left
 * behind, or that Ctrl-C has reached, too, and that takes longer to end. */
static void write_only_process(FILE *out, const struct stats_file *record,
                               const struct launch_facts *launch) {
    write_process(out, record, false);
    if (launch && (launch->interrupted || !ended_alike(record, launch->wait_status)))
        summary_line(out, "command  %s%s", show_command_end(launch).text,
                     record->state == PROCESS_RUNNING ? "; the process above runs on" : "");
}

/* ---- the host's memory: who reads a report asks for the card, so this stays short ---- */

/* PyTorch alone, imported and with a tensor on the device, has 0.4 GiB. */
#define WORTH_A_BLOCK_BYTES ((uint64_t)1 << 30)

/* ComfyUI has some bytes page-locked: not worth a word. */
#define WORTH_A_WORD_BYTES MEBIBYTE

static struct vramgc_gauge pinned_of(const struct vramgc_file *file) {
    struct vramgc_gauge sum = {0, 0};
    for (size_t i = 0; i < file->device_count; i++) {
        const struct vramgc_gauge *pinned = &file->devices[i].stats.pinned_bytes;
        sum.current += pinned->current;
        sum.peak = max_u64(sum.peak, pinned->peak); /* each at its own time: no sum */
    }
    return sum;
}

static void say_given_back(struct text *text, const struct vramgc_file *file) {
    uint64_t heap = file->process.host_released_bytes, pinned = file->process.pinned_released_bytes;
    uint64_t unused = file->process.host_unused_bytes;
    bool of_heap = heap >= WORTH_A_WORD_BYTES, of_pinned = pinned >= WORTH_A_WORD_BYTES;
    if (unused >= WORTH_A_WORD_BYTES)
        text_format(text, " Without observe vramgc would have given back about %s by %s.",
                    show_bytes(unused).text, file->host.call);
    if (!of_heap && !of_pinned)
        return;
    text_add(text, " vramgc gave back ");
    if (of_heap)
        text_format(text, "%s by %s", show_bytes(heap).text,
                    *file->host.call ? file->host.call : "its allocator");
    if (of_pinned)
        text_format(text, "%s%s by torch._C._host_emptyCache", of_heap ? ", " : "",
                    show_bytes(pinned).text);
    text_add(text, ".");
}

static void say_from_to(struct text *text, const char *of, const struct vramgc_gauge *gauge,
                        const struct stats_file *record) {
    text_format(text, "%s%s %s at the peak, %s %s.", text->length ? " " : "", of,
                show_bytes(gauge->peak).text, show_beside(gauge->current).text,
                record->state == PROCESS_RUNNING ? "now" : "at the end");
}

void host_words(struct text *text, const struct stats_file *record) {
    const struct vramgc_host *host = &record->file->host;
    struct vramgc_gauge ram = {ram_bytes(&host->latest), ram_bytes(&host->peak)};
    struct vramgc_gauge pinned = pinned_of(record->file);
    if (max_u64(ram.peak, pinned.peak) < WORTH_A_BLOCK_BYTES)
        return;
    if (host->latest.time_ns)
        say_from_to(text, "RAM of the program:", &ram, record);
    uint64_t in_use_bytes =
        min_u64(host->in_use_bytes, ram.current); /* some of it may lie untouched */
    if (in_use_bytes >= WORTH_A_BLOCK_BYTES)
        text_format(text, " When it last rested %s of it were in use: no call gives that back.",
                    show_bytes(in_use_bytes).text);
    if (host->peak.swap_bytes)
        text_format(text, " Swapped out at the peak: %s.", show_bytes(host->peak.swap_bytes).text);
    if (pinned.peak >= WORTH_A_WORD_BYTES)
        say_from_to(text, "Page-locked:", &pinned, record);
    say_given_back(text, record->file);
}

static void write_host_block(FILE *out, const struct stats_file *record) {
    TEXT_OVER(text, line, HOST_WORDS);
    host_words(&text, record);
    if (!text.length)
        return;
    fputc('\n', out);
    summary_wrapped(out, "HOST", line);
}

/* ---- lists ---- */

static size_t first_listed(size_t count, const struct summary_style *style) {
    return count > style->most_rows ? count - style->most_rows : 0;
}

static void write_omitted(FILE *out, size_t omitted) {
    if (omitted > 0)
        summary_line(out, "         %zu earlier %s in `vramgc report --all`", omitted,
                     omitted == 1 ? "one is" : "ones are");
}

bool is_small_reclaim(const struct vramgc_action *action) {
    return minus_u64(action->before_bytes, action->after_bytes) < MIN_GAIN_BYTES;
}

struct figure asker_pid(const struct vramgc_action *action) {
    return action->asker ? show_words(" (%lu)", action->asker) : (struct figure){""};
}

/* Of one that was only observed nothing went back. */
static void list_action(FILE *out, const struct vramgc_action *a, bool observed) {
    const char *kind = stats_file_action_name(a->kind), *reason = stats_file_reason_name(a->reason);
    struct figure memory = show_bytes(minus_u64(a->before_bytes, a->after_bytes));
    char went[4 * sizeof memory.text];
    snprintf(went, sizeof went, "%9s %8s %8s %8s",
             a->observed ? "-" : show_bytes(a->net_bytes).text, memory.text,
             a->observed ? "-" : show_bytes(a->held_bytes).text,
             a->observed ? "-" : show_time(a->took_ns).text);
    summary_line(out, "         %-10s %-3u %-8s %-9s %9s", show_clock(a->time_ns).text, a->device,
                 kind ? kind : "?", reason ? reason : "?", observed ? memory.text : went);
    if (minus_u64(a->until_ns, a->time_ns) > SECOND_NS)
        summary_line(out, "           until %s", show_clock(a->until_ns).text);
    if (*a->asker_name || a->asker)
        summary_line(out, "           to %s%s, which lacked memory",
                     *a->asker_name ? a->asker_name : "a program", asker_pid(a).text);
}

static void list_actions(FILE *out, const struct stats_file *record,
                         const struct summary_style *style) {
    size_t shown = 0, small = 0;
    bool all = style->most_rows == SIZE_MAX;
    for (size_t i = 0; i < record->action_count; i++)
        small += !all && is_small_reclaim(record->actions[i]);
    size_t first = first_listed(record->action_count - small, style);
    bool observed = stats_file_mode(record->file) == MODE_OBSERVE;
    bool listed = record->action_count > small;
    if (listed)
        summary_line(out, "\n%-19s %-3s %-8s %-9s %9s",
                     observed ? "WOULD RETURN at" : "RETURNED at", "gpu", "by", "why",
                     observed ? "memory" : "gave back   in all     left     took");
    write_omitted(out, first);
    if (small > 0)
        summary_line(out, "%s%zu small %s in `vramgc report --all`",
                     listed ? "         " : "\nRETURNED ", small,
                     small == 1 ? "one is" : "ones are");
    for (size_t i = 0; i < record->action_count; i++)
        if ((all || !is_small_reclaim(record->actions[i])) && shown++ >= first)
            list_action(out, record->actions[i], observed);
}

static void write_asker(FILE *out, const struct vramgc_site *site) {
    enum { BEFORE = 14 };
    if (!site)
        return;
    const char *comma = *site->phase ? ", " : "";
    size_t behind = strlen(comma) + strlen(site->phase);
    summary_line(out, "           in %s%s%s",
                 summary_who_name(site, SUMMARY_WIDTH - BEFORE - behind).text, comma, site->phase);
}

static void list_refusals(FILE *out, const struct stats_file *record,
                          const struct summary_style *style) {
    size_t first = first_listed(record->refusal_count, style);
    if (record->refusal_count == 0)
        return;
    summary_line(out, "\nNO ROOM  %-9s %-3s %8s %8s %10s %s", "at", "gpu", "asked", "free",
                 "idle pages", "why");
    write_omitted(out, first);
    for (size_t i = first; i < record->refusal_count; i++) {
        const struct vramgc_refusal *r = record->refusals[i];
        summary_line(out, "         %-9s %-3u %8s %8s %10s %s%s", show_clock(r->time_ns).text,
                     r->device, show_bytes(r->request_bytes).text, show_bytes(r->free_bytes).text,
                     show_bytes(r->idle_bytes).text, refusal_why(record, r),
                     r->granted ? "; got later" : "");
        write_asker(out, who_asked(record->file, r));
    }
}

static void list_marks(FILE *out, const struct stats_file *record,
                       const struct summary_style *style) {
    size_t first = first_listed(record->mark_count, style);
    if (record->mark_count == 0)
        return;
    summary_line(out, "\nMARKS    %-10s %s", "at", "label");
    write_omitted(out, first);
    for (size_t i = first; i < record->mark_count; i++)
        summary_line(out, "         %-10s %s", show_clock(record->marks[i]->time_ns).text,
                     record->marks[i]->label);
}

/* A job is the work between two rests. What Python left as it ended is nothing left by a job. */
static void list_job(FILE *out, const struct vramgc_job *job, uint64_t python_ended_ns) {
    bool rested = !python_ended_ns || job->time_ns + job->took_ns <= python_ended_ns;
    summary_line(out, "         %-10s %-3lu %5lu %8s %10s %9s %10s %9s",
                 show_clock(job->time_ns).text, job->device, job->number,
                 show_time(job->took_ns).text, show_bytes(job->peak_live_bytes).text,
                 show_bytes(job->peak_held_bytes).text, show_known(rested, job->live_bytes).text,
                 show_known(rested && job->host_bytes > 0, job->host_bytes).text);
}

static void list_jobs(FILE *out, const struct stats_file *record,
                      const struct summary_style *style) {
    if (record->job_count == 0)
        return;
    summary_line(out, "\nJOBS     %-10s %-3s %5s %8s %10s %9s %10s %9s", "at", "gpu", "job", "took",
                 "peak live", "peak held", "live after", "RAM after");
    size_t first = first_listed(record->job_count, style);
    write_omitted(out, first);
    for (size_t i = first; i < record->job_count; i++)
        list_job(out, record->jobs[i], record->file->python_ended_ns);
    summary_line(
        out, "         Requests within 0.2 s count as one job; within a second where the first");
    summary_line(out, "         left something on the card.");
}

static void write_doubts(FILE *out, const struct vramgc_process_stats *p) {
    if (p->internal_errors > 0)
        summary_line(out, "note: %s failures inside vramgc; it passed the calls on",
                     show_count(p->internal_errors).text);
    if (p->lost_records > 0)
        summary_line(out, "note: %s reclaims, refusals, marks or jobs did not fit the file",
                     show_count(p->lost_records).text);
    if (p->unmatched_blocks > 0)
        summary_line(out, "note: %s block events contradicted what vramgc knew of the allocator",
                     show_count(p->unmatched_blocks).text);
    if (p->unaccounted_calls > 0)
        summary_line(out, "note: %s calls may have taken memory that vramgc does not count",
                     show_count(p->unaccounted_calls).text);
}

/* The last two are often longer than a line. */
static void write_mode(FILE *out, const struct vramgc_file *file) {
    TEXT_OVER(text, line, sizeof file->alloc_conf + sizeof file->alloc_conf_why);
    text_format(&text, "%s: %s", file->mode, file->mode_why);
    if (*file->mode)
        summary_wrapped(out, "mode", line);
    text = TEXT_IN(line);
    if (shared_card_say_limits(&text, &file->limits))
        summary_wrapped(out, "limits", line);
    if (!*file->alloc_conf)
        return;
    text = TEXT_IN(line);
    text_format(&text, "allocator: %s", file->alloc_conf);
    summary_wrapped(out, "PyTorch", line);
    text = TEXT_IN(line);
    text_format(&text, "(%s)", file->alloc_conf_why);
    summary_wrapped(out, "", line);
}

/* A path as a shell reads it, without the working directory, which the reader is in. */
static void write_shell_path(FILE *out, const char *path) {
    char *folder = getcwd(NULL, 0);
    size_t length = folder ? strlen(folder) : 0;
    if (length > 1 && strncmp(path, folder, length) == 0 && path[length] == '/')
        path += length + 1;
    free(folder);
    bool plain = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_./+,:@%-") == strlen(path);
    if (plain)
        fputs(path, out);
    else
        shell_word(out, path);
}

void summary_command(FILE *out, const char *command, struct stats_file *const *records,
                     size_t count) {
    fputs(command, out);
    for (size_t i = 0; i < count; i++) {
        fputc(' ', out);
        write_shell_path(out, records[i]->path);
    }
    fputc('\n', out);
}

/* Idle memory, and what becomes of it, is all in which two modes differ. */
static bool differs_by_mode(const struct verdict *verdict) {
    if (verdict->kind == VERDICT_OOM)
        return verdict->oom == VRAMGC_CAUSE_FRAGMENTED || verdict->oom == VRAMGC_CAUSE_POOL ||
               verdict->oom == VRAMGC_CAUSE_PRIVATE;
    return verdict->kind != VERDICT_GROWS;
}

static void write_next(FILE *out, struct stats_file *const *records, size_t count,
                       const struct verdict *verdict) {
    bool observed = stats_file_mode(records[verdict->record]->file) == MODE_OBSERVE;
    fputc('\n', out);
    summary_command(out, "Details  vramgc report --all", records, count);
    summary_command(out, "Picture  vramgc report --open", records, count);
    if (differs_by_mode(verdict))
        fprintf(out, "Compare  run again with --mode %s, then: vramgc diff\n",
                observed ? "auto" : "observe");
}

/* The verdict first, for many read no more. */
void summary_write(FILE *out, struct stats_file *const *records, size_t count,
                   const struct launch_facts *launch, const struct summary_style *style) {
    struct verdict verdict = verdict_of(records, count);
    bool all = style->most_rows == SIZE_MAX;
    if (style->only_verdict || count == 0) {
        *verdict.sum = *verdict.most = *verdict.note = 0;
        TEXT_OVER(text, line, sizeof verdict);
        verdict_write(&text, &verdict);
        summary_wrapped_at(out, sizeof "vramgc:", "vramgc:", line);
        return;
    }
    const struct stats_file *told = records[verdict.record];
    summary_title(out, launch, told);
    summary_wrapped(out, "VERDICT", verdict.what);
    summary_wrapped(out, "CAUSE", verdict.cause);
    summary_wrapped(out, "DO", verdict.todo);
    summary_wrapped(out, "CARD", verdict.sum);
    summary_wrapped(out, "MOST", verdict.most);
    summary_wrapped(out, "NOTE", verdict.note);
    fputc('\n', out);
    if (count == 1)
        write_only_process(out, told, launch);
    for (size_t i = 0; count > 1 && i < count; i++)
        write_process(out, records[i], true);
    write_mode(out, told->file);
    if (count > 1)
        summary_line(out, "\nWhat follows is number %zu of these, pid %lu, %s.", verdict.record + 1,
                     told->file->pid, verdict.ran_out ? "where memory ran out" : "which held most");
    for (size_t i = 0; i < told->file->device_count; i++)
        if (told->file->devices[i].present)
            device_table_write(out, told, i, all);
    summary_who(out, told, style->most_rows);
    write_host_block(out, told);
    list_actions(out, told, style);
    list_refusals(out, told, style);
    list_marks(out, told, style);
    if (all || record_grows(told))
        list_jobs(out, told, style);
    write_doubts(out, &told->file->process);
    if (style->next_commands)
        write_next(out, records, count, &verdict);
}

char *summary_text(struct stats_file *const *records, size_t count) {
    const struct summary_style style = {.most_rows = 20};
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (!stream)
        return NULL;
    summary_write(stream, records, count, NULL, &style);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}
