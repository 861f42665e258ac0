/* html_tables.c: see html_tables.h. It shows figures and computes none; those come from
 * device_table.h. */
#include "show/html_tables.h"
#include "show/device_table.h"
#include "show/summary.h"
#include "judge/cause.h"
#include "judge/who.h"
#include "base/base.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void write_letters(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (strchr("<>&\"'", text[i]))
            fprintf(out, "&#%d;", text[i]);
        else
            fputc(text[i], out);
}

void html_text(FILE *out, const char *text) {
    write_letters(out, text, strlen(text));
}

static bool is_option(const char *word) {
    word += strspn(word, "(`'\"");
    return word[0] == '-' && (word[1] == '-' || islower((unsigned char)word[1]));
}

/* A browser would end a line behind the hyphens of --spill. */
static void write_words(FILE *out, const char *text) {
    static const char between[] = " \t\n";
    while (*text) {
        size_t length = strcspn(text, between);
        size_t with_space = length + strspn(text + length, between);
        bool option = is_option(text);
        fputs(option ? "<span class=\"opt\">" : "", out);
        write_letters(out, text, length);
        fputs(option ? "</span>" : "", out);
        write_letters(out, text + length, with_space - length);
        text += with_space;
    }
}

void html_element(FILE *out, const char *name, const char *text) {
    fprintf(out, "<%s>", name);
    write_words(out, text);
    fprintf(out, "</%.*s>", (int)strcspn(name, " "), name);
}

/* The same, of what printf() makes of it. */
__attribute__((format(printf, 3, 4))) static void html_format(FILE *out, const char *name,
                                                              const char *format, ...) {
    char text[1024];
    FORMAT_ARGUMENTS(text, format);
    html_element(out, name, text);
}

/* ---- a table ---- */

/* Chosen: as much as is looked through in a page, of 1024, 256 and 192 that the file may have; the
 * report as JSON has all. */
enum { MOST_ROWS = 200, MOST_STACKS = 30, MOST_HOOKS = 20 };

/* The heads of a table, and so its columns, are separated by commas. A column is of words behind a
 * bar, of words that may be wrapped behind two, and else of figures. */
static const char *next_head(const char *head) {
    head += strcspn(head, ",");
    return head + (*head == ',');
}

/* The rows are kept until it ends: only then it is known which columns say anything. */
enum { MOST_COLUMNS = 13, MOST_CELLS = MOST_ROWS * MOST_COLUMNS };

struct table {
    FILE *out, *cells; /* which ends in html */
    const char *title, *heads;
    char *html;
    size_t length, columns, count, ends[MOST_CELLS], left_out;
    bool says[MOST_COLUMNS];
};

static bool open_table(struct table *table, FILE *out, const char *title, const char *heads) {
    *table = (struct table){.out = out, .title = title, .heads = heads};
    for (const char *head = heads; *head; head = next_head(head))
        table->columns++;
    table->cells = open_memstream(&table->html, &table->length);
    return table->cells != NULL;
}

static void end_cell(struct table *table, bool says) {
    fflush(table->cells);
    table->ends[table->count] = table->length;
    table->says[table->count++ % table->columns] |= says;
}

/* A row, or what is left of one. */
static void fill_row(struct table *table, const char *const *texts) {
    static const char *const elements[] = {"td", "td class=\"t\"", "td class=\"t wrap\""};
    const char *head = table->heads;
    for (size_t i = 0; i < table->count % table->columns; i++)
        head = next_head(head);
    for (; *head && *texts && table->count < MOST_CELLS; head = next_head(head), texts++) {
        fprintf(table->cells, "<%s>", elements[strspn(head, "|")]);
        html_text(table->cells, *texts); /* in one piece: beside its head, where a row is a list */
        fputs("</td>", table->cells);
        end_cell(table, **texts && strcmp(*texts, "-") != 0);
    }
}

#define CELLS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void html_heads(const struct table *table) {
    const char *head = table->heads;
    for (size_t i = 0; i < table->columns; i++, head = next_head(head)) {
        size_t bars = strspn(head, "|");
        if (table->says[i])
            html_format(table->out, bars ? "th class=\"t\"" : "th", "%.*s",
                        (int)strcspn(head + bars, ","), head + bars);
    }
}

static void close_table(struct table *table) {
    FILE *out = table->out;
    size_t from = 0;
    fclose(table->cells);
    if (table->count > 0) {
        html_element(out, "h3", table->title);
        if (table->left_out)
            html_format(out, "p class=\"quiet\"",
                        "The newest %d; %zu more are in vramgc report --json.", MOST_ROWS,
                        table->left_out);
        fputs("<div class=\"scroll long\"><table><thead><tr>", out);
        html_heads(table);
        fputs("</tr></thead><tbody>\n", out);
    }
    for (size_t i = 0; i < table->count; from = table->ends[i++]) {
        size_t column = i % table->columns;
        fputs(column == 0 ? "<tr>" : "", out);
        if (table->says[column])
            fwrite(table->html + from, 1, table->ends[i] - from, out);
        fputs(column + 1 == table->columns ? "</tr>\n" : "", out);
    }
    fputs(table->count > 0 ? "</tbody></table></div>\n" : "", out);
    free(table->html);
}

/* Of long lists the newest are shown. */
static size_t first_shown(struct table *table, size_t count) {
    return table->left_out = count > MOST_ROWS ? count - MOST_ROWS : 0;
}

/* A time that leads to its moment in the pictures. device < 0: of all devices. */
static void at(struct table *table, size_t process, long device, uint64_t time_ns) {
    fprintf(table->cells, "<td class=\"t\" data-ns=\"%lu\" data-process=\"%zu\"", time_ns, process);
    if (device >= 0)
        fprintf(table->cells, " data-device=\"%ld\"", device);
    fprintf(table->cells, ">%s</td>", show_clock(time_ns).text);
    end_cell(table, true);
}

/* ---- a device ---- */

static void html_device(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    char title[160], heads[80], line[REFUSED_WORDS];
    struct text refused = TEXT_IN(line);
    struct device_table rows;
    struct table table;
    device_rows(record, index, &rows);
    snprintf(title, sizeof title, "GPU %zu  %s  %s", index, device->name, device->bus_id);
    snprintf(heads, sizeof heads, "|,peak,%s,%s", rows.then, rows.last);
    if (!open_table(&table, out, title, heads))
        return;
    for (size_t i = 0; i < rows.count; i++)
        fill_row(&table,
                 CELLS(rows.rows[i].label, rows.rows[i].peak.text,
                       rows.has_refusal ? rows.rows[i].then.text : "", rows.rows[i].last.text));
    close_table(&table);
    if (*rows.gone)
        html_format(out, "p class=\"quiet\"", "%s", rows.gone);
    device_say_refused(&refused, record, index);
    html_format(out, "p class=\"quiet\"", "%s; memory returned: %s", line,
                show_count(device->stats.reclaims).text);
}

/* ---- whose it was ---- */

static void html_who(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_file *file = record->file;
    struct who_row rows[WHO_ROWS];
    size_t count = who_rows(file, &file->devices[index], rows);
    char title[80], heads[80];
    struct table table;
    snprintf(title, sizeof title, "Whose live memory was, GPU %zu", index);
    snprintf(heads, sizeof heads, "|Python function,at the peak,%s,|phase",
             device_then(record, index));
    if (!open_table(&table, out, title, heads))
        return;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].peak_bytes + rows[i].oom_bytes == 0)
            continue;
        fill_row(&table, CELLS(who_name(rows[i].site).text,
                               show_known(rows[i].peak_bytes > 0, rows[i].peak_bytes).text,
                               show_known(rows[i].oom_bytes > 0, rows[i].oom_bytes).text,
                               rows[i].site ? rows[i].site->phase : ""));
    }
    close_table(&table);
}

/* ---- lists ---- */

static const char *known(const char *word) {
    return word ? word : "?";
}

static const char *granted_word(const struct vramgc_refusal *r) {
    return r->granted                       ? "later"
           : r->reported == VRAMGC_WENT_ON  ? "no: the work went on"
           : r->reported == VRAMGC_REPORTED ? "no: out of memory"
                                            : "no";
}

static void html_refusals(FILE *out, const struct stats_file *record, size_t number) {
    struct table table;
    if (!open_table(&table, out, "Requests for which there was no room",
                    "|at,GPU,wanted,free,idle pages,live,largest hole,|why,|granted,|from,"
                    "|Python function"))
        return;
    for (size_t i = first_shown(&table, record->refusal_count); i < record->refusal_count; i++) {
        const struct vramgc_refusal *r = record->refusals[i];
        const struct vramgc_site *site = who_asked(record->file, r);
        const char *hook = stats_file_hook_name(record->file, r->hook);
        char who[sizeof(struct who_name) + sizeof site->phase + 2] = "";
        if (site)
            snprintf(who, sizeof who, "%s%s%s", who_name(site).text, *site->phase ? ", " : "",
                     site->phase);
        at(&table, number, r->device, r->time_ns);
        fill_row(&table,
                 CELLS(show_unit(UNIT_ID, r->device).text, show_bytes(r->request_bytes).text,
                       show_bytes(r->free_bytes).text, show_bytes(r->idle_bytes).text,
                       show_bytes(r->allocated_bytes).text, show_bytes(r->largest_hole_bytes).text,
                       refusal_why(record, r), granted_word(r), hook ? hook : "", who));
    }
    close_table(&table);
}

/* Of one that was only observed nothing went back. */
static void html_reclaims(FILE *out, const struct stats_file *record, size_t number) {
    bool observed = stats_file_mode(record->file) == MODE_OBSERVE;
    struct table table;
    if (!open_table(&table, out,
                    observed ? "Memory that would have been returned" : "Memory that was returned",
                    observed
                        ? "|at,|until,GPU,|by,|why,gave back,memory,left,took,|Python ran,|phase"
                        : "|at,|until,GPU,|by,|why,gave back,in all,left,took,|Python ran,"
                          "|phase"))
        return;
    for (size_t i = first_shown(&table, record->action_count); i < record->action_count; i++) {
        const struct vramgc_action *a = record->actions[i];
        bool lasted = minus_u64(a->until_ns, a->time_ns) > SECOND_NS;
        TEXT_OVER(text, why, 80);
        text_add(&text, known(stats_file_reason_name(a->reason)));
        if (*a->asker_name)
            text_format(&text, ": to %s%s", a->asker_name, asker_pid(a).text);
        at(&table, number, a->device, a->time_ns);
        fill_row(&table,
                 CELLS(lasted ? show_clock(a->until_ns).text : "",
                       show_unit(UNIT_ID, a->device).text, known(stats_file_action_name(a->kind)),
                       why, a->observed ? "-" : show_bytes(a->net_bytes).text,
                       show_bytes(minus_u64(a->before_bytes, a->after_bytes)).text,
                       a->observed ? "-" : show_bytes(a->held_bytes).text,
                       a->observed ? "-" : show_time(a->took_ns).text, a->function, a->phase));
    }
    close_table(&table);
}

static void html_marks(FILE *out, const struct stats_file *record, size_t number) {
    struct table table;
    if (!open_table(&table, out, "Marks", "|at,|label"))
        return;
    for (size_t i = first_shown(&table, record->mark_count); i < record->mark_count; i++) {
        at(&table, number, -1, record->marks[i]->time_ns);
        fill_row(&table, CELLS(record->marks[i]->label));
    }
    close_table(&table);
}

/* ---- who asked ---- */

static int more_bytes(const void *a, const void *b) {
    uint64_t x = (*(const struct vramgc_stack *const *)a)->bytes;
    uint64_t y = (*(const struct vramgc_stack *const *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void html_stack(FILE *out, const struct vramgc_stack *stack) {
    fputs("<details>", out);
    html_format(out, "summary", "%s in %s %s: %s", show_bytes(stack->bytes).text,
                show_count(stack->count).text, stack->count == 1 ? "request" : "requests",
                stack->frame_count > 0 ? stack->frames[0].text : "?");
    fputs("<pre>", out);
    for (size_t i = 0; i < stack->frame_count; i++) {
        const struct vramgc_frame *frame = &stack->frames[i];
        if (!*frame->text)
            fprintf(out, "0x%lx", frame->address);
        html_text(out, frame->text);
        fputc('\n', out);
    }
    fputs("</pre></details>\n", out);
}

static void html_stacks(FILE *out, const struct vramgc_file *file) {
    const struct vramgc_stack *largest[VRAMGC_MAX_STACKS];
    for (size_t i = 0; i < file->stack_count; i++)
        largest[i] = &file->stacks[i];
    if (file->stack_count == 0)
        return;
    qsort(largest, file->stack_count, sizeof *largest, more_bytes);
    html_element(out, "h3", "Who asked the driver for most, by call stack");
    for (size_t i = 0; i < file->stack_count && i < MOST_STACKS; i++)
        html_stack(out, largest[i]);
}

static int more_calls(const void *a, const void *b) {
    uint64_t x = (*(const struct vramgc_hook *const *)a)->calls;
    uint64_t y = (*(const struct vramgc_hook *const *)b)->calls;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void html_hooks(FILE *out, const struct vramgc_file *file) {
    const struct vramgc_hook *most[VRAMGC_MAX_HOOKS];
    struct table table;
    for (size_t i = 0; i < file->hook_count; i++)
        most[i] = &file->hooks[i];
    qsort(most, file->hook_count, sizeof *most, more_calls);
    fputs("<details><summary>Functions of CUDA that were called most</summary>", out);
    if (open_table(&table, out, "", "|function,calls,failed")) {
        for (size_t i = 0; i < file->hook_count && i < MOST_HOOKS && most[i]->calls > 0; i++)
            fill_row(&table, CELLS(most[i]->name, show_count(most[i]->calls).text,
                                   show_count(most[i]->failed).text));
        close_table(&table);
    }
    fputs("</details>\n", out);
}

static void html_settings(FILE *out, const struct vramgc_file *file) {
    struct table table;
    fputs("<details><summary>Settings in force</summary>", out);
    if (open_table(&table, out, "", "|setting,||value,|from")) {
        for (size_t i = 0; i < file->setting_count; i++)
            fill_row(&table, CELLS(file->settings[i].name, file->settings[i].value,
                                   file->settings[i].origin));
        close_table(&table);
    }
    fputs("</details>\n", out);
}

/* ---- the process ---- */

static void fact(FILE *out, const char *name, const char *value) {
    if (!*value)
        return;
    fputs("<tr>", out);
    html_element(out, "td class=\"t\"", name);
    html_element(out, "td class=\"t wrap\"", value);
    fputs("</tr>\n", out);
}

static void html_facts(FILE *out, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    char text[sizeof file->alloc_conf + sizeof file->alloc_conf_why + 4];
    char line[HOST_WORDS] = "";
    struct text ram = TEXT_IN(line);
    host_words(&ram, record);
    fputs("<table><tbody>", out);
    fact(out, "command", file->command_line);
    fact(out, "ended", summary_end(record).text);
    fact(out, "time", show_time(stats_file_ran_ns(record)).text);
    snprintf(text, sizeof text, "%s: %s", file->mode, file->mode_why);
    fact(out, "mode", *file->mode ? text : "");
    struct text limits = TEXT_IN(text);
    fact(out, "limits", shared_card_say_limits(&limits, &file->limits) ? text : "");
    fact(out, "PyTorch", file->torch_version);
    snprintf(text, sizeof text, "%s (%s)", file->alloc_conf, file->alloc_conf_why);
    fact(out, "allocator", *file->alloc_conf ? text : "");
    fact(out, "host memory", line);
    fact(out, "statistics file", record->path);
    fputs("</tbody></table>\n", out);
}

void html_tables_write(FILE *out, const struct stats_file *record, size_t number) {
    const struct vramgc_file *file = record->file;
    fputs("<section class=\"process\">\n", out);
    html_format(out, "h2", "Process %lu", file->pid);
    html_facts(out, record);
    for (size_t i = 0; i < file->device_count; i++)
        if (file->devices[i].present) {
            html_device(out, record, i);
            html_who(out, record, i);
        }
    html_refusals(out, record, number);
    html_reclaims(out, record, number);
    html_marks(out, record, number);
    html_stacks(out, file);
    html_hooks(out, file);
    html_settings(out, file);
    fputs("</section>\n", out);
}
