/* export_markdown.c: what a maintainer asks first, as a bug thread shows it, and the whole page
 * folded up below. No text of the program may become markup. */
#include "show/export_formats.h"
#include "show/device_table.h"
#include "show/summary.h"
#include "read/units.h"
#include "judge/verdict.h"
#include "judge/who.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* Letters, digits and blanks mean nothing; all else might. */
static void markdown_text(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<' || c == '>' || c == '&')
            fprintf(out, "&#%d;", c);
        else if (c == '@')
            fputs("@\xE2\x80\x8B", out); /* a name behind it would be called here */
        else if (strchr("\\`*_{}[]()#+!|~$", c))
            fprintf(out, "\\%c", c);
        else
            fputc(c, out);
    }
}

static void markdown_fact(FILE *out, const char *name, const char *value) {
    if (!*value)
        return;
    fprintf(out, "| %s | ", name);
    markdown_text(out, value);
    fputs(" |\n", out);
}

static void markdown_process(FILE *out, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    char text[512];
    fputs("\n| | |\n|---|---|\n", out);
    markdown_fact(out, "command", file->command_line);
    markdown_fact(out, "vramgc", file->version);
    markdown_fact(out, "PyTorch", file->torch_version);
    snprintf(text, sizeof text, "%lu.%lu", file->cuda_driver / 1000, file->cuda_driver % 1000 / 10);
    markdown_fact(out, "CUDA driver", file->cuda_driver ? text : "");
    snprintf(text, sizeof text, "%s: %s", file->mode, file->mode_why);
    markdown_fact(out, "mode", *file->mode ? text : "");
    markdown_fact(out, "allocator setting", file->alloc_conf);
    markdown_fact(out, "ended", summary_end(record).text);
    markdown_fact(out, "began", show_date(stats_file_began_unix_ns(record)).text);
    markdown_fact(out, "ran", show_time(stats_file_ran_ns(record)).text);
}

static void markdown_cells(FILE *out, const struct device_table *table, const char *peak,
                           const char *then, const char *last) {
    fprintf(out, " | %s | ", peak);
    if (table->has_refusal)
        fprintf(out, "%s | ", then);
    fprintf(out, "%s |\n", last);
}

static void markdown_device(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    TEXT_OVER(refused, line, REFUSED_WORDS);
    struct device_table table;
    device_rows(record, index, &table);
    fprintf(out, "\n| GPU %zu, ", index);
    markdown_text(out, device->name);
    markdown_cells(out, &table, "peak", table.then, table.last);
    fprintf(out, "|---|---:|---:|%s\n", table.has_refusal ? "---:|" : "");
    for (size_t i = 0; i < table.count; i++) {
        const struct device_row *row = &table.rows[i];
        fputs("| ", out);
        markdown_text(out, row->label);
        markdown_cells(out, &table, row->peak.text, row->then.text, row->last.text);
    }
    device_say_refused(&refused, record, index);
    fprintf(out, "\n%s; memory returned: %s\n", line, show_count(device->stats.reclaims).text);
}

static void markdown_who(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    struct who_row rows[WHO_ROWS];
    size_t count = who_rows(record->file, device, rows);
    bool oom = who_has_oom(device);
    if (count > 0)
        fprintf(out,
                "\n| GPU %zu, live memory of (where it begins) | phase | at the peak |%s%s%s\n"
                "|---|---|---:|%s\n",
                index, oom ? " " : "", oom ? device_then(record, index) : "", oom ? " |" : "",
                oom ? "---:|" : "");
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].peak_bytes && !rows[i].oom_bytes) /* there are no smaller ones */
            continue;
        fputs("| ", out);
        markdown_text(out, who_name(rows[i].site).text);
        fputs(" | ", out);
        markdown_text(out, rows[i].site ? rows[i].site->phase : "");
        fprintf(out, " | %s |", show_known(rows[i].peak_bytes > 0, rows[i].peak_bytes).text);
        if (oom)
            fprintf(out, " %s |", show_known(rows[i].oom_bytes > 0, rows[i].oom_bytes).text);
        fputc('\n', out);
    }
}

static size_t longest_fence(const char *text) {
    size_t longest = 2;
    for (; *text; text++) {
        size_t length = strspn(text, "`");
        longest = length > longest ? length : longest;
        text += length > 0 ? length - 1 : 0;
    }
    return longest + 1;
}

/* The fence is longer than any within. */
static void write_folded(FILE *out, const char *page) {
    char fence[128];
    size_t length = min_u64(longest_fence(page), sizeof fence - 1);
    memset(fence, '`', length);
    fence[length] = 0;
    fprintf(out, "\n<details><summary>The whole report</summary>\n\n%s\n%s%s\n\n</details>\n",
            fence, page, fence);
}

void export_markdown(FILE *out, const struct records *records) {
    struct verdict verdict = verdict_of(records->list, records->count);
    TEXT_OVER(text, words, sizeof verdict);
    verdict_write(&text, &verdict);
    fputs("**vramgc:** ", out);
    markdown_text(out, words);
    fputc('\n', out);
    for (size_t i = 0; i < records->count; i++) {
        markdown_process(out, records->list[i]);
        for (size_t j = 0; j < records->list[i]->file->device_count; j++)
            if (records->list[i]->file->devices[j].present) {
                markdown_device(out, records->list[i], j);
                markdown_who(out, records->list[i], j);
            }
    }
    char *page = summary_text(records->list, records->count);
    if (page)
        write_folded(out, page);
    free(page);
}
