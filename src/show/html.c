/* html.c: see html.h. It fills the marks {{name}} of page/page.html. No browser runs a script that
 * does not carry the number that is drawn for each page anew. */
#include "show/html.h"
#include "show/html_tables.h"
#include "show/report_fields.h"
#include "show/summary.h"
#include "judge/verdict.h"
#include "read/block_files.h"
#include "read/units.h"
#include "base/base.h"
#include "vramgc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

extern const char page_template[], page_style[], page_script[];

struct page {
    FILE *out;
    struct stats_file *const *records;
    size_t count;
    const struct stats_file *told;
    struct verdict verdict;
    char nonce[40];
};

static void draw_nonce(struct page *page) {
    uint64_t random[2] = {0};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        random[0] = clock_ns();
    snprintf(page->nonce, sizeof page->nonce, "%016lx%016lx", random[0], random[1]);
}

static void page_nonce(const struct page *page) {
    fputs(page->nonce, page->out);
}

static const struct {
    const char *phase, *light, *dark;
} colours[] = {
#define COLOUR(phase, light, dark) {phase, light, dark},
#include "phases.def"
};

/* --phase0 is that of the first phase that the script knows. */
static void write_colours(FILE *out, bool dark) {
    fputs(":root {", out);
    for (size_t i = 0; i < ARRAY_LENGTH(colours); i++)
        fprintf(out, " --phase%zu: %s;", i, dark ? colours[i].dark : colours[i].light);
    fputs(" }\n", out);
}

static void page_css(const struct page *page) {
    fputs(page_style, page->out);
    write_colours(page->out, false);
    fputs("@media (prefers-color-scheme: dark) {\n", page->out);
    write_colours(page->out, true);
    fputs("}\n", page->out);
}

static void page_js(const struct page *page) {
    fputs("const PHASES = [", page->out);
    for (size_t i = 0; i < ARRAY_LENGTH(colours); i++)
        fprintf(page->out, "%s\"%s\"", i > 0 ? ", " : "", colours[i].phase);
    fputs("];\n", page->out);
    fputs(page_script, page->out);
}

/* By the words of `vramgc list`, without what it was told; the whole command is further down. */
static void page_heading(const struct page *page) {
    TEXT_OVER(text, words, PROGRAM_BYTES);
    program_name(page->told->file, &text);
    html_text(page->out, *page->told->file->command_line ? words : page->told->path);
    if (page->count > 1)
        fprintf(page->out, ", and %zu more", page->count - 1);
}

static void page_from(const struct page *page) {
    const struct vramgc_file *file = page->told->file;
    if (file->started_unix_ns)
        fprintf(page->out, "%s, ", show_date(stats_file_began_unix_ns(page->told)).text);
    fprintf(page->out, "ran %s, ", show_time(stats_file_ran_ns(page->told)).text);
    html_text(page->out, summary_end(page->told).text);
    html_text(page->out, *file->host_name ? ", on " : "");
    html_text(page->out, file->host_name);
    html_text(page->out, *file->mode ? ", mode " : "");
    html_text(page->out, file->mode);
    fprintf(page->out, "; vramgc %s", VRAMGC_VERSION);
}

static const char *colour_of(enum verdict_kind kind) {
    switch (kind) {
    case VERDICT_OK:
        return "good";
    case VERDICT_GROWS: /* though it had room so far */
    case VERDICT_IDLE:
        return "warn";
    case VERDICT_NONE:
    case VERDICT_UNKNOWN:
        return "plain";
    default:
        return "bad";
    }
}

static void write_term(FILE *out, const char *name, const char *class, const char *text) {
    if (!*text)
        return;
    html_element(out, "dt", name);
    html_element(out, class, text);
    fputc('\n', out);
}

static void page_verdict(const struct page *page) {
    const struct verdict *verdict = &page->verdict;
    fprintf(page->out, "<div class=\"verdict %s\" id=\"verdict\" data-process=\"%zu\">\n",
            colour_of(verdict->kind), verdict->record);
    html_element(page->out, "p class=\"what\"", verdict->what);
    fputs("\n<dl>\n", page->out);
    write_term(page->out, "Cause", "dd", verdict->cause);
    write_term(page->out, "Do", "dd class=\"todo\"", verdict->todo);
    write_term(page->out, "Card", "dd", verdict->sum);
    write_term(page->out, "Most", "dd", verdict->most);
    write_term(page->out, "Note", "dd", verdict->note);
    fputs("</dl>\n</div>\n", page->out);
}

static void page_processes(const struct page *page) {
    for (size_t i = 0; i < page->count; i++)
        html_tables_write(page->out, page->records[i], i);
}

/* ---- what the pictures are drawn from, as JSON within script elements ---- */

/* In JSON a < stands only within strings, where it may be written so. */
static void html_json(FILE *out, const char *json, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (json[i] == '<')
            fputs("\\u003c", out);
        else
            fputc(json[i], out);
}

static void page_report(const struct page *page) {
    char *json = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&json, &length);
    if (!stream)
        return;
    report_fields_write(stream, EMIT_JSON, page->records, page->count, NULL);
    if (fclose(stream) == 0)
        html_json(page->out, json, length);
    free(json);
}

/* A map of millions of blocks becomes one of thousands: small neighbours are drawn together, and no
 * hole that is large enough to be seen gets lost in that. */

/* Blocks that are drawn as one: how many, and their bytes by state. */
struct entry {
    uint64_t live_bytes, pending_bytes, free_bytes, blocks;
};

static uint64_t entry_bytes(const struct entry *entry) {
    return entry->live_bytes + entry->pending_bytes + entry->free_bytes;
}

static void add_block(struct entry *entry, const struct vramgc_block *block) {
    uint64_t *of_state = block->state == VRAMGC_BLOCK_ALLOCATED ? &entry->live_bytes
                         : block->state == VRAMGC_BLOCK_PENDING ? &entry->pending_bytes
                                                                : &entry->free_bytes;
    *of_state += block->bytes;
    entry->blocks++;
}

/* Below so many bytes a block is drawn together with its neighbours. 0: each by itself. */
static uint64_t least_drawn_bytes(const struct block_map *map) {
    enum { MOST_ENTRIES = 12000 }; /* of 20 bytes: a quarter of a megabyte of the page */
    uint64_t total = 0;
    for (size_t i = 0; i < map->head.count; i++)
        total += map->blocks[i].bytes;
    return map->head.count > MOST_ENTRIES ? total / MOST_ENTRIES * 2 : 0;
}

static void draw_entry(FILE *out, struct entry *entry, bool *first) {
    if (entry->blocks > 0)
        fprintf(out, "%s[%lu,%lu,%lu,%lu]", *first ? "" : ",", entry->live_bytes,
                entry->pending_bytes, entry->free_bytes, entry->blocks);
    *first = *first && entry->blocks == 0;
    *entry = (struct entry){0};
}

/* True: both lie in one segment, or in two of which no line would tell one from the other. */
static bool is_together(const struct vramgc_block *a, const struct vramgc_block *b,
                        uint64_t least) {
    return a->segment_address == b->segment_address ||
           (a->segment_bytes < least && b->segment_bytes < least);
}

/* The blocks from b on that lie in its segment; how many. */
static size_t draw_segment(FILE *out, const struct vramgc_block *b, size_t count, uint64_t least) {
    fprintf(out,
            "{\"address\":\"0x%lx\",\"stream\":\"0x%lx"
            "\",\"expandable\":%s,\"entries\":[",
            b->segment_address, b->stream == STREAM_NONE ? 0 : b->stream,
            b->expandable ? "true" : "false");
    struct entry entry = {0};
    bool first = true;
    size_t n = 0, segments = 0;
    for (; n < count && is_together(b, &b[n], least); n++) {
        segments += n == 0 || b[n].segment_address != b[n - 1].segment_address;
        if (b[n].bytes >= least || entry_bytes(&entry) >= least)
            draw_entry(out, &entry, &first);
        add_block(&entry, &b[n]);
        if (b[n].bytes >= least)
            draw_entry(out, &entry, &first);
    }
    draw_entry(out, &entry, &first);
    fprintf(out, "],\"segments\":%zu}", segments);
    return n;
}

static void draw_map(FILE *out, const struct block_map *map, size_t process) {
    const struct vramgc_map *head = &map->head;
    uint64_t least = least_drawn_bytes(map);
    fprintf(out,
            "{\"process\":%zu,\"device\":%u,\"time_ns\":%lu,\"request_bytes\":%lu"
            ",\"free_bytes\":%lu,\"segments\":[",
            process, head->device, head->time_ns, head->request_bytes, head->free_bytes);
    for (size_t i = 0; i < head->count;) {
        fputs(i > 0 ? "," : "", out);
        i += draw_segment(out, &map->blocks[i], head->count - i, least);
    }
    fputs("]}", out);
}

static void page_maps(const struct page *page) {
    FILE *out = page->out;
    bool first = true;
    fputc('[', out);
    for (size_t i = 0; i < page->count; i++) {
        struct block_maps maps = block_maps_load(page->records[i]);
        for (size_t j = 0; j < VRAMGC_MAX_DEVICES; j++) {
            if (!maps.of[j].blocks)
                continue;
            fputs(first ? "" : ",", out);
            first = false;
            draw_map(out, &maps.of[j], i);
        }
        block_maps_free(&maps);
    }
    fputc(']', out);
}

/* ---- all ---- */

/* The page of text, which an issue takes. */
static void page_summary(const struct page *page) {
    char *text = summary_text(page->records, page->count);
    if (text) {
        fputs("<section><details><summary>As text, for an issue</summary>\n<button type=\"button\" "
              "class=\"copy\" id=\"copy\" hidden>copy</button>\n",
              page->out);
        fputs("<pre id=\"text\">", page->out);
        html_text(page->out, text);
        fputs("</pre></details></section>", page->out);
    }
    free(text);
}

static const struct {
    const char *name;
    void (*write)(const struct page *page);
} marks[] = {
    {"nonce", page_nonce},  {"title", page_heading},   {"style", page_css},
    {"from", page_from},    {"verdict", page_verdict}, {"processes", page_processes},
    {"text", page_summary}, {"report", page_report},   {"maps", page_maps},
    {"script", page_js},
};

static void fill_mark(const struct page *page, const char *name, size_t length) {
    for (size_t i = 0; i < ARRAY_LENGTH(marks); i++)
        if (strlen(marks[i].name) == length && strncmp(marks[i].name, name, length) == 0)
            marks[i].write(page);
}

void html_write(FILE *out, struct stats_file *const *records, size_t count) {
    struct page page = {
        .out = out, .records = records, .count = count, .verdict = verdict_of(records, count)};
    page.told = records[page.verdict.record];
    const char *at = page_template, *mark;
    draw_nonce(&page);
    while ((mark = strstr(at, "{{"))) {
        const char *end = strstr(mark, "}}");
        fwrite(at, 1, (size_t)(mark - at), out);
        fill_mark(&page, mark + 2, (size_t)(end - mark) - 2);
        at = end + 2;
    }
    fputs(at, out);
}
