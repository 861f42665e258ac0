/* summary.c: see summary.h. It shows figures and computes none; those come from derived.h. */
#include "cli/summary.h"
#include "cli/graph.h"
#include "cli/cli.h"
#include "cli/derived.h"
#include "cli/terminal.h"
#include "cli/units.h"
#include "cli/verdict.h"
#include "base/base.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

size_t bytes_of_columns(const char *text, size_t columns) {
    size_t i = 0;
    while (text[i]) {
        bool starts = ((unsigned char)text[i] & 0xc0) != 0x80;
        if (starts && columns-- == 0)
            break;
        i++;
    }
    return i;
}

void summary_line(FILE *out, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(out, "%.*s\n", (int)bytes_of_columns(line, SUMMARY_WIDTH), line);
}

/* At spaces, and between the members of a list that has none, but not within a number. */
static bool may_break(const char *text, size_t at) {
    bool word = (unsigned char)(text[at] - 'a') <= 'z' - 'a';
    return text[at] == ' ' || (text[at - 1] == ',' && word);
}

/* Sentences behind a heading, each line behind so many columns. */
static void write_wrapped_at(FILE *out, int indent, const char *heading, const char *text) {
    struct terminal terminal = terminal_of(out);
    while (*text) {
        size_t length = bytes_of_columns(text, (size_t)(terminal.columns - indent));
        if (text[length])
            for (size_t i = length; i > 0; i--)
                if (may_break(text, i)) {
                    length = i;
                    break;
                }
        bool bold = terminal.colours && *heading >= 'A' && *heading <= 'Z';
        fprintf(out, "%s%-*s%s%.*s\n", bold ? "\033[1m" : "", indent, heading,
                bold ? "\033[0m" : "", (int)length, text);
        text += length;
        text += strspn(text, " ");
        heading = "";
    }
}

static void write_wrapped(FILE *out, const char *heading, const char *text) {
    write_wrapped_at(out, 9, heading, text);
}

struct figure summary_end(const struct stats_file *record) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    static const char *const words[PROCESS_STATES] = {
        [PROCESS_RUNNING] = "still running",
        [PROCESS_LEFT] = "ended by itself",
        [PROCESS_REPLACED] = "replaced by exec",
        [PROCESS_VANISHED] = "ended without exit handlers",
    };
    if (record->state == PROCESS_EXITED)
        text_format(&text, "exit %d", record->code);
    else if (record->state == PROCESS_KILLED)
        text_format(&text, "killed by %s", show_signal(record->signal).text);
    else
        text_add(&text, words[record->state]);
    return figure;
}

static struct figure show_command_end(const struct launch_facts *launch) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    text_add(&text, launch->interrupted ? "stopped by Ctrl-C, " : "");
    if (WIFSIGNALED(launch->wait_status))
        text_format(&text, "killed by %s", show_signal(WTERMSIG(launch->wait_status)).text);
    else
        text_format(&text, "exit %d", WEXITSTATUS(launch->wait_status));
    return figure;
}

const char *without_folder(const char *command) {
    const char *slash = memrchr(command, '/', strcspn(command, " "));
    return slash ? slash + 1 : command;
}

/* The command, shortened where it must be, then right at the right edge. */
static void write_edges(FILE *out, const char *left, const char *right) {
    size_t room = SUMMARY_WIDTH - strlen(right) - 2;
    size_t length = bytes_of_columns(left, room);
    if (left[length]) {
        left = without_folder(left);
        length = bytes_of_columns(left, room);
    }
    size_t columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)left[i] & 0xc0) != 0x80;
    fprintf(out, "%.*s%*s  %s\n", (int)length, left, (int)(room - columns), "", right);
}

/* The program runs before its first use of CUDA, too, where the record begins. */
static struct figure show_duration(const struct launch_facts *launch,
                                   const struct stats_file *record) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    struct figure of_record = show_time(record->elapsed_ns);
    struct figure all = launch ? show_time(launch->elapsed_ns) : of_record;
    text_add(&text, all.text);
    if (strcmp(all.text, of_record.text) != 0)
        text_format(&text, ", %s since CUDA began", of_record.text);
    return figure;
}

static void write_title(FILE *out, struct figure elapsed) {
    char line[SUMMARY_WIDTH + 1];
    struct text text = TEXT_IN(line);
    text_format(&text, "-- vramgc %s ", VRAMGC_VERSION);
    while (text.length + strlen(elapsed.text) + 1 < SUMMARY_WIDTH)
        text_add(&text, "-");
    text_format(&text, " %s", elapsed.text);
    fprintf(out, "%s\n", line);
}

static void write_process(FILE *out, const struct stats_file *record, const char *end) {
    char right[96];
    struct text text = TEXT_IN(right);
    text_format(&text, "pid %llu   %s", (unsigned long long)record->file->pid, end);
    write_edges(out, record->file->command_line, right);
}

/* How the command ended is how its only process did, but for one that the command left behind, or
 * that Ctrl-C has reached, too, and that takes longer to end. */
static void write_only_process(FILE *out, const struct stats_file *record,
                               const struct launch_facts *launch) {
    struct figure of_record = summary_end(record);
    struct figure of_command = launch ? show_command_end(launch) : of_record;
    bool behind = launch && record->state == PROCESS_RUNNING;
    write_process(out, record, behind ? of_record.text : of_command.text);
    if (behind)
        summary_line(out, "command  %s; the process above runs on", of_command.text);
}

static void write_process_row(FILE *out, const struct stats_file *record) {
    char right[96];
    struct text text = TEXT_IN(right);
    struct figure held = show_bytes(to_u64(stats_file_held_peak(record)));
    text_format(&text, "pid %llu   held %s   %s", (unsigned long long)record->file->pid, held.text,
                summary_end(record).text);
    write_edges(out, record->file->command_line, right);
}

static const char *part(bool known, struct figure *figure) {
    return known ? figure->text : "-";
}

static void write_division(FILE *out, const struct vramgc_device *device) {
    struct division peak = division_at_peak(device), end = division_at_end(device);
    struct figure a = show_bytes(peak.held_bytes), b = show_bytes(end.held_bytes);
    summary_line(out, "  held by this program %28s %14s", a.text, b.text);
    a = show_bytes(peak.others_bytes), b = show_bytes(end.others_bytes);
    summary_line(out, "+ held by others and the driver %17s %14s", part(peak.known, &a),
                 part(end.known, &b));
    a = show_bytes(peak.free_bytes), b = show_bytes(end.free_bytes);
    summary_line(out, "+ free %42s %14s", part(peak.known, &a), part(end.known, &b));
    a = show_bytes(device->total_bytes);
    summary_line(out, "= card %42s %14s", part(device->total_bytes > 0, &a),
                 part(device->total_bytes > 0, &a));
}

/* A gauge of stats.def; each at its own highest moment. */
static void write_gauge(FILE *out, const char *label, enum unit unit, struct vramgc_gauge gauge) {
    struct figure peak = show_unit(unit, gauge.peak), current = show_unit(unit, gauge.current);
    summary_line(out, "  %-30s %16s %14s", label, peak.text, current.text);
}

/* In mode compact what PyTorch has reserved is not memory: that is only behind what is live. What
 * idle pages there are beside it lies anywhere, or nowhere: they wait for PyTorch's next block. */
static void write_allocator(FILE *out, const struct vramgc_device_stats *s) {
    bool paged = s->page_bytes.peak > 0;
    summary_line(out, "PyTorch's allocator, each figure at its own peak");
    write_gauge(out, paged ? "reserved (addresses only)" : "reserved", UNIT_BYTES,
                s->reserved_bytes);
    if (paged)
        write_gauge(out, "physical pages, used or cached", UNIT_BYTES, s->page_bytes);
    write_gauge(out, "allocated (live)", UNIT_BYTES, s->live_bytes);
    if (!paged && s->segments.peak > 0) { /* what lies in pools is not known block by block */
        write_gauge(out, "idle pages", UNIT_BYTES, s->idle_bytes);
        write_gauge(out, "releasable by empty_cache", UNIT_BYTES, s->releasable_bytes);
    }
    write_gauge(out, "segments", UNIT_COUNT, s->segments);
}

/* What beside PyTorch's blocks has a line only where it amounts to something: PyTorch itself pins a
 * byte here and there. */
static void write_beside(FILE *out, const char *label, struct vramgc_gauge gauge) {
    const uint64_t least_bytes = (uint64_t)1 << 20;
    if (gauge.peak >= least_bytes)
        write_gauge(out, label, UNIT_BYTES, gauge);
}

static void write_gauges(FILE *out, const struct vramgc_device_stats *s) {
    write_allocator(out, s);
    write_beside(out, "held by other libraries", s->other_bytes);
    write_beside(out, "stream-ordered pools", s->pool_bytes);
    write_beside(out, "managed", s->managed_bytes);
    write_beside(out, "pinned host memory", s->pinned_bytes);
}

/* With cudaMallocAsync PyTorch itself counts none, and its hooks tell of none. */
static struct figure show_ooms(const struct vramgc_file *file, uint64_t ooms) {
    bool is_known = ooms > 0 || !strstr(file->alloc_conf, "cudaMallocAsync");
    return is_known ? show_count(ooms) : show_real(false, 0, 0);
}

static void write_ratios(FILE *out, const struct vramgc_file *file,
                         const struct vramgc_device *device) {
    struct derived mean = derived_figure(DERIVED_held_over_live_mean, device);
    struct derived weighted = derived_figure(DERIVED_held_over_live_weighted, device);
    struct derived peak = derived_figure(DERIVED_held_over_live_peak, device);
    struct derived used = derived_figure(DERIVED_utilisation_peak_percent, device);
    summary_line(out, "held / live: %s at the peaks, %s on average, %s mean of block events",
                 show_real(peak.known, peak.value, 2).text,
                 show_real(weighted.known, weighted.value, 2).text,
                 show_real(mean.known, mean.value, 2).text);
    summary_line(out, "at most %s %% of the card used", show_real(used.known, used.value, 0).text);
    const struct vramgc_device_stats *s = &device->stats;
    summary_line(out, "driver calls: %s; requests refused: %s; out of memory in PyTorch: %s",
                 show_count(s->driver_calls).text, show_count(s->refusals).text,
                 show_ooms(file, s->ooms).text);
    if (s->page_bytes.peak > 0) {
        summary_line(out, "2 MiB pages: %s mapped, %s unmapped; waits for the GPU: %s",
                     show_count(s->page_maps).text, show_count(s->page_unmaps).text,
                     show_count(s->page_waits).text);
        summary_line(out, "driver calls by vramgc for pages: %s", show_count(s->page_calls).text);
    }
}

/* Where it was never used nothing is said. */
static void write_rare(FILE *out, const struct vramgc_device_stats *s) {
    if (s->refused_block_bytes > 0)
        summary_line(out, "PyTorch counts %s as allocated that never got memory",
                     show_bytes(s->refused_block_bytes).text);
    if (s->spilled_bytes.peak > 0)
        summary_line(out, "up to %s of live memory lay in the host, for %s in all",
                     show_bytes(s->spilled_bytes.peak).text, show_time(s->spilled_ns).text);
}

static void write_device(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    fputc('\n', out);
    size_t cut = bytes_of_columns(device->name, 48);
    summary_line(out, "GPU %zu  %.*s  %s", index, (int)cut, device->name, device->bus_id);
    summary_line(out, "%-41s %8s %14s", "", "peak",
                 record->state == PROCESS_RUNNING ? "now" : "at the end");
    write_division(out, device);
    write_gauges(out, &device->stats);
    write_ratios(out, record->file, device);
    write_rare(out, &device->stats);
    graph_write(out, record, device, index);
}

static size_t first_row(size_t count, const struct summary_style *style) {
    return count > style->most_rows ? count - style->most_rows : 0;
}

static void write_omitted(FILE *out, size_t omitted) {
    if (omitted > 0)
        summary_line(out, "         %zu earlier ones are in `vramgc report --all`", omitted);
}

bool is_small_reclaim(const struct stats_file *record, const struct vramgc_action *action) {
    const char *least = stats_file_setting(record, "min_gain");
    uint64_t bytes = minus_u64(action->before_bytes, action->after_bytes);
    return least && bytes < strtoull(least, NULL, 10);
}

/* Of one that was only observed nothing went back. */
static void write_action(FILE *out, const struct vramgc_action *a) {
    const char *kind = stats_file_action_name(a->kind), *reason = stats_file_reason_name(a->reason);
    summary_line(out, "         %-10s %-3lu %-8s %-9s %9s %8s %8s %8s", show_clock(a->time_ns).text,
                 (unsigned long)a->device, kind ? kind : "?", reason ? reason : "?",
                 a->observed ? "-" : show_bytes(a->net_bytes).text,
                 show_bytes(minus_u64(a->before_bytes, a->after_bytes)).text,
                 a->observed ? "-" : show_bytes(a->held_bytes).text,
                 a->observed ? "observed" : show_time(a->took_ns).text);
}

static void write_actions(FILE *out, const struct stats_file *record,
                          const struct summary_style *style) {
    size_t shown = 0, small = 0;
    bool all = style->most_rows == SIZE_MAX;
    for (size_t i = 0; i < record->action_count; i++)
        small += !all && is_small_reclaim(record, record->actions[i]);
    size_t first = first_row(record->action_count - small, style);
    if (record->action_count == 0)
        return;
    summary_line(out, "\nRECLAIMS %-10s %-3s %-8s %-9s %9s %8s %8s %8s", "at", "gpu", "by", "why",
                 "gave back", "in turn", "holds", "took");
    write_omitted(out, first);
    if (small > 0)
        summary_line(out, "         %zu smaller than VRAMGC_MIN_GAIN are left out here", small);
    for (size_t i = 0; i < record->action_count; i++)
        if ((all || !is_small_reclaim(record, record->actions[i])) && shown++ >= first)
            write_action(out, record->actions[i]);
}

const char *summary_cause(uint32_t cause) {
    static const char *const why[VRAMGC_REFUSAL_CAUSES] = {
        [VRAMGC_REFUSAL_UNKNOWN] = "unknown",
        [VRAMGC_REFUSAL_FULL] = "not enough memory",
        [VRAMGC_REFUSAL_FRAGMENTED] = "fragmentation",
        [VRAMGC_REFUSAL_ROUNDED] = "rounded up",
        [VRAMGC_REFUSAL_DRIVER] = "free, and refused",
        [VRAMGC_REFUSAL_LIMIT] = "limit of PyTorch's",
        [VRAMGC_REFUSAL_HOST] = "the host's memory",
    };
    return cause < ARRAY_LENGTH(why) ? why[cause] : NULL;
}

static void write_refusals(FILE *out, const struct stats_file *record,
                           const struct summary_style *style) {
    size_t first = first_row(record->refusal_count, style);
    if (record->refusal_count == 0)
        return;
    summary_line(out, "\nREFUSED  %-10s %-3s %8s %8s %8s  %s", "at", "gpu", "asked", "free", "idle",
                 "why");
    write_omitted(out, first);
    for (size_t i = first; i < record->refusal_count; i++) {
        const struct vramgc_refusal *r = record->refusals[i];
        summary_line(out, "         %-10s %-3lu %8s %8s %8s  %s%s", show_clock(r->time_ns).text,
                     (unsigned long)r->device, show_bytes(r->request_bytes).text,
                     show_bytes(r->free_bytes).text, show_bytes(r->idle_bytes).text,
                     summary_cause(r->cause) ? summary_cause(r->cause) : "?",
                     r->granted ? "; granted later" : "");
    }
}

static void write_doubts(FILE *out, const struct vramgc_process_stats *p) {
    if (p->internal_errors > 0)
        summary_line(out, "note: %s failures inside vramgc; it passed the calls on",
                     show_count(p->internal_errors).text);
    if (p->lost_records > 0)
        summary_line(out, "note: %s reclaims, refusals or marks did not fit the file",
                     show_count(p->lost_records).text);
    if (p->unmatched_blocks > 0)
        summary_line(out, "note: %s block events contradicted what vramgc knew of the allocator",
                     show_count(p->unmatched_blocks).text);
    if (p->unaccounted_calls > 0)
        summary_line(out, "note: %s calls may have taken memory that vramgc does not count",
                     show_count(p->unaccounted_calls).text);
}

/* Both are often longer than a line. */
static void write_alloc_conf(FILE *out, const struct vramgc_file *file) {
    char line[sizeof file->alloc_conf + sizeof file->alloc_conf_why];
    struct text text = TEXT_IN(line);
    text_format(&text, "allocator: %s", file->alloc_conf);
    write_wrapped(out, "PyTorch", line);
    text = TEXT_IN(line);
    text_format(&text, "(%s)", file->alloc_conf_why);
    write_wrapped(out, "", line);
}

static void write_mode(FILE *out, const struct vramgc_file *file) {
    char line[sizeof file->mode + sizeof file->mode_why + 2];
    struct text text = TEXT_IN(line);
    text_format(&text, "%s: %s", file->mode, file->mode_why);
    if (*file->mode)
        write_wrapped(out, "mode", line);
    if (*file->alloc_conf)
        write_alloc_conf(out, file);
}

/* A path as a shell reads it, without the working directory, which the reader is in. */
static void write_path(FILE *out, const char *path) {
    char *folder = getcwd(NULL, 0);
    size_t length = folder ? strlen(folder) : 0;
    if (length > 1 && strncmp(path, folder, length) == 0 && path[length] == '/')
        path += length + 1;
    free(folder);
    bool plain = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_./+,:@%-") == strlen(path);
    fputs(plain ? " " : " '", out);
    for (; *path; path++)
        if (*path == '\'')
            fputs("'\\''", out);
        else
            fputc(*path, out);
    fputs(plain ? "" : "'", out);
}

static void write_command(FILE *out, const char *command, struct stats_file *const *records,
                          size_t count) {
    fputs(command, out);
    for (size_t i = 0; i < count; i++)
        write_path(out, records[i]->path);
    fputc('\n', out);
}

static void write_next(FILE *out, struct stats_file *const *records, size_t count, bool observed) {
    fputc('\n', out);
    write_command(out, "Details  vramgc report --all", records, count);
    write_command(out, "Picture  vramgc report --open", records, count);
    write_command(out, "As JSON  vramgc report --json", records, count);
    fprintf(out, "Compare  run again with --mode %s, then: vramgc diff A B\n",
            observed ? "auto" : "observe");
}

/* First, for many read no more. */
static void write_verdict(FILE *out, const struct verdict *verdict) {
    write_wrapped(out, "VERDICT", verdict->what);
    write_wrapped(out, "CAUSE", verdict->cause);
    write_wrapped(out, "DO", verdict->todo);
    write_wrapped(out, "SUM", verdict->sum);
    write_wrapped(out, "NOTE", verdict->note);
    fputc('\n', out);
}

void summary_write(FILE *out, struct stats_file *const *records, size_t count,
                   const struct launch_facts *launch, const struct summary_style *style) {
    struct verdict verdict = verdict_of(records, count);
    if (style->only_verdict || count == 0) {
        char line[sizeof verdict];
        struct text text = TEXT_IN(line);
        verdict_write(&text, &verdict);
        write_wrapped_at(out, sizeof "vramgc:", "vramgc:", line);
        return;
    }
    size_t number = largest_record(records, count);
    const struct stats_file *largest = records[number];
    write_title(out, show_duration(launch, largest));
    write_verdict(out, &verdict);
    if (count == 1)
        write_only_process(out, largest, launch);
    for (size_t i = 0; count > 1 && i < count; i++)
        write_process_row(out, records[i]);
    write_mode(out, largest->file);
    if (count > 1)
        summary_line(out, "\nWhat follows is number %zu of these, pid %llu, which held most.",
                     number + 1, (unsigned long long)largest->file->pid);
    for (size_t i = 0; i < largest->file->device_count; i++)
        if (largest->file->devices[i].present)
            write_device(out, largest, i);
    write_actions(out, largest, style);
    write_refusals(out, largest, style);
    write_doubts(out, &largest->file->process);
    if (style->next_commands)
        write_next(out, records, count, strcmp(largest->file->mode, "observe") == 0);
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
