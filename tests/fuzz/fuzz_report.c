/* fuzz_report.c: whatever bytes a statistics file holds, reading it ends in a one-line error or in
 * sane output: valid JSON, pages of text of at most 80 columns without control characters. Anything
 * else ends the process. Entry point of libFuzzer; mutate.c drives the same without it.
 *
 * Input: two bytes tell the length of the first of two files, which are compared and shown
 * together; where one of them cannot be read, the other is shown alone. Of each: one byte chooses
 * the file to start from, one how much of its end is cut off; then patches, each of four bytes of
 * offset, one of length, and the bytes themselves. */
#include "cli/diff.h"
#include "show/export_formats.h"
#include "show/html.h"
#include "read/stats_file.h"
#include "show/summary.h"
#include "show/summary_lines.h"
#include "show/top_page.h"
#include "show/report_fields.h"
#include "e2e/make_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void fail(const char *what, const char *text, size_t length) {
    fprintf(stderr, "fuzz_report: %s\n%.*s\n", what, (int)(length < 4000 ? length : 4000), text);
    abort();
}

static size_t patch(struct vramgc_file *file, const uint8_t *data, size_t size) {
    static const char *const scenarios[] = {"plain",   "fragmented", "full",    "two-devices",
                                            "unknown", "observe",    "hostile", "uncounted"};
    size_t length = sizeof *file;
    if (size < 2)
        return 0;
    make_file(file, scenarios[data[0] % 8]);
    if (data[1] > 0xf0)
        length -= (size_t)(data[1] - 0xf0) * (sizeof *file / 16);
    size_t at = 2;
    while (at + 5 < size) {
        uint32_t offset;
        memcpy(&offset, data + at, sizeof offset);
        offset %= (uint32_t)sizeof *file;
        size_t count = data[at + 4];
        at += 5;
        if (count > size - at)
            count = size - at;
        if (count > sizeof *file - offset)
            count = sizeof *file - offset;
        memcpy((char *)file + offset, data + at, count);
        at += count;
    }
    return length;
}

static void check_json(struct stats_file **records, size_t count) {
    char *text = NULL;
    size_t length = 0;
    json_error_t error;
    FILE *out = open_memstream(&text, &length);
    report_fields_write(out, EMIT_JSON, records, count, NULL);
    fclose(out);
    /* Integers need all of 64 bits, which jansson's do not have. */
    json_t *json =
        json_loadb(text, length, JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES, &error);
    if (!json || json_array_size(json_object_get(json, "processes")) != count)
        fail(json ? "not all processes" : error.text, text, length);
    json_decref(json);
    free(text);
}

static size_t columns(const char *line, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            fail("a control character", line, length);
        count += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return count;
}

static void check_lines(const char *text, size_t length) {
    for (const char *line = text; line < text + length;) {
        size_t end = strcspn(line, "\n");
        if (columns(line, end) > SUMMARY_WIDTH && strncmp(line, "Details", 7) != 0 &&
            strncmp(line, "Picture", 7) != 0)
            fail("a line is too long", line, end);
        line += end + 1;
    }
}

static void check_text(struct stats_file **records, size_t count) {
    static const struct summary_style style = {.most_rows = SIZE_MAX, .next_commands = true};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    summary_write(out, records, count, NULL, &style);
    diff_write(out, records[0], records[count - 1], true);
    fclose(out);
    check_lines(text, length);
    free(text);
    out = open_memstream(&text, &length);
    report_fields_write(out, EMIT_TEXT, records, count, NULL);
    fclose(out);
    for (const char *line = text; line < text + length; line += strcspn(line, "\n") + 1)
        columns(line, strcspn(line, "\n"));
    free(text);
}

/* Perfetto's is JSON; of the others no byte is looked at. */
static void check_exports(struct stats_file **list, size_t count) {
    static void (*const formats[])(FILE *, const struct records *) = {
        export_markdown, export_prometheus, export_torch, export_perfetto};
    const struct records records = {.list = list, .count = count};
    json_error_t error;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        formats[i](out, &records);
        fclose(out);
        json_t *json = formats[i] == export_perfetto
                           ? json_loadb(text, length, JSON_DECODE_INT_AS_REAL, &error)
                           : NULL;
        if (formats[i] == export_perfetto && !json)
            fail(error.text, text, length);
        json_decref(json);
        free(text);
    }
}

/* The JSON report in it ends where a browser says that it does. */
static void check_page(struct stats_file **records, size_t count) {
    static const char begin[] = "<script type=\"application/json\" id=\"report\">";
    char *text = NULL;
    size_t length = 0;
    json_error_t error;
    FILE *out = open_memstream(&text, &length);
    html_write(out, records, count);
    fclose(out);
    const char *from = strstr(text, begin);
    const char *to = from ? strstr(from, "</script>") : NULL;
    if (!to)
        fail("no report in the page", text, length);
    from += sizeof begin - 1;
    json_t *json = json_loadb(from, (size_t)(to - from), JSON_DECODE_INT_AS_REAL, &error);
    if (!json)
        fail(error.text, from, (size_t)(to - from));
    json_decref(json);
    free(text);
}

/* No line is wider than was asked for, and what adds up does so in any file. */
static void check_top(struct stats_file **list, size_t count) {
    struct running_process processes[2];
    struct top_view view = {.running = {processes, count}, .most_events = SIZE_MAX};
    struct page page = {0};
    for (size_t i = 0; i < count; i++)
        processes[i] = (struct running_process){i + 1, list[i], -1};
    view.cards = cards_of(&view.running, false);
    for (int width = PAGE_NARROWEST; width <= PAGE_WIDEST; width += PAGE_WIDEST / 4) {
        top_choose(&view, 1);
        top_page(&page, &view, width);
        for (size_t i = 0; i < page.count; i++)
            if (columns(page.lines[i].text, strlen(page.lines[i].text)) > (size_t)width)
                fail("a line of top is too long", page.lines[i].text, strlen(page.lines[i].text));
    }
    for (size_t i = 0; i < view.cards.count; i++) {
        const struct card *card = &view.cards.list[i];
        uint64_t sum = card->rest_bytes + card->free_bytes;
        for (size_t j = 0; j < card->row_count; j++)
            sum += card->rows[j].held_bytes;
        if (card->known && sum != card->total_bytes)
            fail("a card does not add up", "", 0);
    }
    cards_free(&view.cards);
    free(page.lines);
}

/* NULL when there is no file in it, and that was said in one line. */
static struct stats_file *load(const uint8_t *data, size_t size) {
    char error[256] = "";
    struct vramgc_file *file = malloc(sizeof *file);
    if (!file)
        return NULL;
    char path[64];
    int memory = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    size_t length = patch(file, data, size);
    if (memory < 0 || write(memory, file, length) != (ssize_t)length)
        fail("no room for a file", "", 0);
    struct stats_file *record = stats_file_load(path, error, sizeof error);
    close(memory);
    free(file);
    if (!record && (!*error || strchr(error, '\n')))
        fail("the error is not one line", error, strlen(error));
    return record;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct stats_file *records[2];
    size_t count = 0;
    if (size < 2)
        return 0;
    size_t rest = size - 2, first = (size_t)(data[0] | data[1] << 8);
    first = first < rest ? first : rest;
    records[count] = load(data + 2, first);
    count += records[count] != NULL;
    records[count] = load(data + 2 + first, rest - first);
    count += records[count] != NULL;
    if (count > 0) {
        stats_files_relate(records, count);
        check_json(records, count);
        check_text(records, count);
        check_exports(records, count);
        check_page(records, count);
        check_top(records, count);
    }
    for (size_t i = 0; i < count; i++)
        stats_file_free(records[i]);
    return 0;
}
