/* html_tables.c: see html_tables.h. It shows figures and computes none; those come from
 * device_rows.h. */
#include "show/html_tables.h"
#include "show/device_rows.h"
#include "show/html_text.h"
#include "show/summary.h"
#include "read/units.h"
#include "judge/who.h"
#include "base/base.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 200, MOST_STACKS = 30, MOST_HOOKS = 20 };

static void cell(FILE *out, const char *text) {
    html_element(out, "td", text);
}

static void words(FILE *out, const char *text) {
    html_element(out, "td class=\"t\"", text);
}

static void open_table(FILE *out, const char *title, const char *const *heads, size_t count) {
    html_element(out, "h3", title);
    fputs("<div class=\"scroll long\"><table><thead><tr>", out);
    for (size_t i = 0; i < count; i++) /* a bar in front: the column is of words */
        if (*heads[i] == '|')
            html_element(out, "th class=\"t\"", heads[i] + 1);
        else
            html_element(out, "th", heads[i]);
    fputs("</tr></thead><tbody>\n", out);
}

static void close_table(FILE *out) {
    fputs("</tbody></table></div>\n", out);
}

/* Of long lists the newest are shown. */
static size_t first_row(FILE *out, size_t count) {
    if (count <= MOST_ROWS)
        return 0;
    html_format(out, "p class=\"quiet\"",
                "The newest %d of %zu; all of them are in vramgc report --json.", MOST_ROWS, count);
    return count - MOST_ROWS;
}

/* A time that leads to its moment in the pictures. device < 0: of all devices. */
static void at(FILE *out, size_t process, long device, uint64_t time_ns) {
    fprintf(out, "<tr><td class=\"t\" data-ns=\"%" PRIu64 "\" data-process=\"%zu\"", time_ns,
            process);
    if (device >= 0)
        fprintf(out, " data-device=\"%ld\"", device);
    fprintf(out, ">%s</td>", show_clock(time_ns).text);
}

/* ---- a device ---- */

static void device_row(FILE *out, const struct device_table *table, const struct device_row *row) {
    fputs("<tr>", out);
    words(out, row->label);
    cell(out, row->peak.text);
    if (table->has_refusal)
        cell(out, row->then.text);
    cell(out, row->last.text);
    fputs("</tr>\n", out);
}

static void write_device(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    const char *heads[4] = {"|", "peak"};
    size_t columns = 2;
    char title[160];
    struct device_table table;
    device_rows(record, index, &table);
    snprintf(title, sizeof title, "GPU %zu  %s  %s", index, device->name, device->bus_id);
    if (table.has_refusal)
        heads[columns++] = "at the out-of-memory";
    heads[columns++] = table.last;
    open_table(out, title, heads, columns);
    for (size_t i = 0; i < table.count; i++)
        device_row(out, &table, &table.rows[i]);
    close_table(out);
    html_format(out, "p class=\"quiet\"", "refused %s, out of memory %s, reclaims %s",
                show_count(device->stats.refusals).text, show_count(device->stats.ooms).text,
                show_count(device->stats.reclaims).text);
}

/* ---- whose it was ---- */

static void write_who_rows(FILE *out, const struct who_row *rows, size_t count, bool oom) {
    for (size_t i = 0; i < count; i++) {
        const struct who_row *who = &rows[i];
        fputs("<tr>", out);
        words(out, who_name(who->site).text);
        words(out, who->site ? who->site->phase : "");
        cell(out, show_known(who->peak_bytes > 0, who->peak_bytes).text);
        if (oom)
            cell(out, show_known(who->oom_bytes > 0, who->oom_bytes).text);
        fputs("</tr>\n", out);
    }
}

static void write_who(FILE *out, const struct vramgc_file *file, size_t index) {
    static const char *const heads[] = {"|Python function", "|phase", "at the peak",
                                        "at the out-of-memory"};
    struct who_row rows[WHO_ROWS];
    size_t count = who_rows(file, &file->devices[index], rows);
    char title[80];
    snprintf(title, sizeof title, "Whose live memory was, GPU %zu", index);
    if (count == 0)
        return;
    bool oom = who_has_oom(&file->devices[index]);
    open_table(out, title, heads, ARRAY_LENGTH(heads) - !oom);
    write_who_rows(out, rows, count, oom);
    close_table(out);
}

/* ---- lists ---- */

static const char *known(const char *word) {
    return word ? word : "?";
}

static void write_refusals(FILE *out, const struct stats_file *record, size_t number) {
    static const char *const heads[] = {"|at",
                                        "GPU",
                                        "asked",
                                        "free",
                                        "idle",
                                        "live",
                                        "largest hole",
                                        "|why",
                                        "|granted",
                                        "|from",
                                        "|Python function",
                                        "|phase"};
    const struct vramgc_file *file = record->file;
    if (record->refusal_count == 0)
        return;
    open_table(out, "Refused", heads, ARRAY_LENGTH(heads));
    for (size_t i = first_row(out, record->refusal_count); i < record->refusal_count; i++) {
        const struct vramgc_refusal *r = record->refusals[i];
        at(out, number, r->device, r->time_ns);
        html_format(out, "td", "%u", r->device);
        cell(out, show_bytes(r->request_bytes).text);
        cell(out, show_bytes(r->free_bytes).text);
        cell(out, show_bytes(r->idle_bytes).text);
        cell(out, show_bytes(r->allocated_bytes).text);
        cell(out, show_bytes(r->largest_hole_bytes).text);
        words(out, known(summary_cause(r->cause)));
        words(out, r->granted                       ? "later"
                   : r->reported == VRAMGC_WENT_ON  ? "no: the work went on"
                   : r->reported == VRAMGC_REPORTED ? "no: out of memory"
                                                    : "no");
        const char *hook = stats_file_hook_name(file, r->hook);
        words(out, hook ? hook : "");
        const struct vramgc_site *site = who_asked(file, r);
        words(out, site ? who_name(site).text : "");
        words(out, site ? site->phase : "");
        fputs("</tr>\n", out);
    }
    close_table(out);
}

/* Of one that was only observed nothing went back. */
static void write_reclaims(FILE *out, const struct stats_file *record, size_t number) {
    static const char *const heads[] = {"|at",    "GPU",   "|by",  "|why",        "gave back",
                                        "in all", "holds", "took", "|Python ran", "|phase"};
    if (record->action_count == 0)
        return;
    open_table(out, "Reclaims", heads, ARRAY_LENGTH(heads));
    for (size_t i = first_row(out, record->action_count); i < record->action_count; i++) {
        const struct vramgc_action *a = record->actions[i];
        at(out, number, a->device, a->time_ns);
        html_format(out, "td", "%u", a->device);
        words(out, known(stats_file_action_name(a->kind)));
        words(out, known(stats_file_reason_name(a->reason)));
        cell(out, a->observed ? "-" : show_bytes(a->net_bytes).text);
        cell(out, show_bytes(minus_u64(a->before_bytes, a->after_bytes)).text);
        cell(out, a->observed ? "-" : show_bytes(a->held_bytes).text);
        cell(out, a->observed ? "observed" : show_time(a->took_ns).text);
        words(out, a->function);
        words(out, a->phase);
        fputs("</tr>\n", out);
    }
    close_table(out);
}

static void write_marks(FILE *out, const struct stats_file *record, size_t number) {
    static const char *const heads[] = {"|at", "|label"};
    if (record->mark_count == 0)
        return;
    open_table(out, "Marks", heads, ARRAY_LENGTH(heads));
    for (size_t i = first_row(out, record->mark_count); i < record->mark_count; i++) {
        at(out, number, -1, record->marks[i]->time_ns);
        words(out, record->marks[i]->label);
        fputs("</tr>\n", out);
    }
    close_table(out);
}

/* ---- who asked ---- */

static int more_bytes(const void *a, const void *b) {
    uint64_t x = (*(const struct vramgc_stack *const *)a)->bytes;
    uint64_t y = (*(const struct vramgc_stack *const *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void write_stack(FILE *out, const struct vramgc_stack *stack) {
    fputs("<details>", out);
    html_format(out, "summary", "%s in %s %s: %s", show_bytes(stack->bytes).text,
                show_count(stack->count).text, stack->count == 1 ? "request" : "requests",
                stack->frame_count > 0 ? stack->frames[0].text : "?");
    fputs("<pre>", out);
    for (size_t i = 0; i < stack->frame_count; i++) {
        const struct vramgc_frame *frame = &stack->frames[i];
        if (!*frame->text)
            fprintf(out, "0x%" PRIx64, frame->address);
        html_text(out, frame->text);
        fputc('\n', out);
    }
    fputs("</pre></details>\n", out);
}

static void write_stacks(FILE *out, const struct vramgc_file *file) {
    const struct vramgc_stack *largest[VRAMGC_MAX_STACKS];
    for (size_t i = 0; i < file->stack_count; i++)
        largest[i] = &file->stacks[i];
    if (file->stack_count == 0)
        return;
    qsort(largest, file->stack_count, sizeof *largest, more_bytes);
    html_element(out, "h3", "Who asked the driver for most, by call stack");
    for (size_t i = 0; i < file->stack_count && i < MOST_STACKS; i++)
        write_stack(out, largest[i]);
}

static int more_calls(const void *a, const void *b) {
    uint64_t x = (*(const struct vramgc_hook *const *)a)->calls;
    uint64_t y = (*(const struct vramgc_hook *const *)b)->calls;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void hook_row(FILE *out, const struct vramgc_hook *hook) {
    fputs("<tr>", out);
    words(out, hook->name);
    cell(out, show_count(hook->calls).text);
    cell(out, show_count(hook->failed).text);
    fputs("</tr>\n", out);
}

static void write_hooks(FILE *out, const struct vramgc_file *file) {
    static const char *const heads[] = {"|function", "calls", "failed"};
    const struct vramgc_hook *most[VRAMGC_MAX_HOOKS];
    for (size_t i = 0; i < file->hook_count; i++)
        most[i] = &file->hooks[i];
    qsort(most, file->hook_count, sizeof *most, more_calls);
    fputs("<details><summary>Functions of CUDA that were called most</summary>", out);
    open_table(out, "", heads, ARRAY_LENGTH(heads));
    for (size_t i = 0; i < file->hook_count && i < MOST_HOOKS && most[i]->calls > 0; i++)
        hook_row(out, most[i]);
    close_table(out);
    fputs("</details>\n", out);
}

static void write_settings(FILE *out, const struct vramgc_file *file) {
    static const char *const heads[] = {"|setting", "|value", "|from"};
    fputs("<details><summary>Settings in force</summary>", out);
    open_table(out, "", heads, ARRAY_LENGTH(heads));
    for (size_t i = 0; i < file->setting_count; i++) {
        fputs("<tr>", out);
        words(out, file->settings[i].name);
        html_element(out, "td class=\"t wrap\"", file->settings[i].value);
        words(out, file->settings[i].origin);
        fputs("</tr>\n", out);
    }
    close_table(out);
    fputs("</details>\n", out);
}

/* ---- the process ---- */

static void fact(FILE *out, const char *name, const char *value) {
    if (!*value)
        return;
    fputs("<tr>", out);
    words(out, name);
    html_element(out, "td class=\"t wrap\"", value);
    fputs("</tr>\n", out);
}

static void write_facts(FILE *out, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    char text[sizeof file->alloc_conf + sizeof file->alloc_conf_why + 4];
    fputs("<table><tbody>", out);
    fact(out, "command", file->command_line);
    fact(out, "ended", summary_end(record).text);
    fact(out, "time", show_time(record->elapsed_ns).text);
    snprintf(text, sizeof text, "%s: %s", file->mode, file->mode_why);
    fact(out, "mode", *file->mode ? text : "");
    fact(out, "PyTorch", file->torch_version);
    snprintf(text, sizeof text, "%s (%s)", file->alloc_conf, file->alloc_conf_why);
    fact(out, "allocator", *file->alloc_conf ? text : "");
    fact(out, "statistics file", record->path);
    fputs("</tbody></table>\n", out);
}

void html_tables_write(FILE *out, const struct stats_file *record, size_t number) {
    const struct vramgc_file *file = record->file;
    fputs("<section class=\"process\">\n", out);
    html_format(out, "h2", "Process %" PRIu64, file->pid);
    write_facts(out, record);
    for (size_t i = 0; i < file->device_count; i++)
        if (file->devices[i].present) {
            write_device(out, record, i);
            write_who(out, file, i);
        }
    write_refusals(out, record, number);
    write_reclaims(out, record, number);
    write_marks(out, record, number);
    write_stacks(out, file);
    write_hooks(out, file);
    write_settings(out, file);
    fputs("</section>\n", out);
}
