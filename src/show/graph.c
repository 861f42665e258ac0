/* graph.c: the timeline of a device in plain ASCII, so that it survives being pasted. */
#include "show/graph.h"
#include "show/summary_lines.h"
#include "read/derived.h"
#include "read/units.h"
#include "judge/who.h"
#include "base/base.h"

#include <string.h>

/* With its label it fits into 80 columns, and with a device's figures on a screen. */
enum { COLUMNS = 60, ROWS = 8, LABEL = 10, LEAST_POINTS = 4 };

struct graph {
    const struct stats_file *record;
    const struct vramgc_device *device;
    size_t index;
    uint64_t end_ns, sample_count; /* by then */
    double top_bytes;
    struct vramgc_sample columns[COLUMNS]; /* all points that fall into one, as one */
};

static size_t column_of(uint64_t time_ns, uint64_t end_ns) {
    double place = (double)time_ns / (double)end_ns * (double)COLUMNS;
    return place < (double)COLUMNS ? (size_t)place : COLUMNS - 1;
}

/* Memory that Python frees as it ends is no work. */
static bool is_cut(const struct stats_file *record) {
    return record->file->python_ended_ns && record->state != PROCESS_RUNNING;
}

static uint64_t graph_end_ns(const struct stats_file *record, const struct vramgc_device *device) {
    if (is_cut(record))
        return record->file->python_ended_ns;
    uint64_t count = device->sample_count;
    return max_u64(record->elapsed_ns, count > 0 ? device->samples[count - 1].time_ns : 0);
}

/* A column without a sample shows what held since the one before. */
static void fill_columns(struct graph *graph) {
    bool seen[COLUMNS] = {false};
    for (uint64_t i = 0; i < graph->sample_count; i++) {
        const struct vramgc_sample *sample = &graph->device->samples[i];
        size_t place = column_of(sample->time_ns, graph->end_ns);
        if (seen[place])
            sample_join(&graph->columns[place], sample);
        else
            graph->columns[place] = *sample;
        seen[place] = true;
    }
    for (size_t i = 1; i < COLUMNS; i++)
        if (!seen[i])
            graph->columns[i] = graph->columns[i - 1];
}

/* By the middle of the row; of what was held it shows a little, too. */
static char graph_sign(const struct vramgc_sample *column, double low, double middle) {
    return (double)sample_live_mean(column) > middle  ? '#'
           : (double)column->allocated_bytes > middle ? '^'
           : (double)column->held_low_bytes > middle  ? ':'
           : (double)column->held_bytes > low         ? '.'
                                                      : ' ';
}

/* True: something was live for a part of a step only. */
static bool write_graph_row(FILE *out, const struct graph *graph, size_t row) {
    char line[COLUMNS + 1];
    double step = graph->top_bytes / (double)ROWS, low = step * (double)row;
    for (size_t i = 0; i < COLUMNS; i++)
        line[i] = graph_sign(&graph->columns[i], low, low + step / 2);
    line[COLUMNS] = 0;
    bool labelled = row + 1 == ROWS || row + 1 == ROWS / 2;
    fprintf(out, "%*s |%.*s\n", LABEL, labelled ? show_bytes(to_u64(low + step)).text : "", COLUMNS,
            line);
    return strchr(line, '^');
}

static void put_letter(char *line, const struct graph *graph, uint64_t time_ns, char letter) {
    char *place = &line[column_of(time_ns, graph->end_ns)];
    if (is_cut(graph->record) && time_ns > graph->end_ns)
        return;
    if (letter == 'X' || *place == '-' || *place == '=')
        *place = letter;
}

/* Pages go one after another. */
static void put_reclaim(char *line, const struct graph *graph, const struct vramgc_action *action) {
    size_t last = column_of(action->until_ns, graph->end_ns);
    put_letter(line, graph, action->time_ns, 'R');
    for (size_t i = column_of(action->time_ns, graph->end_ns) + 1; i <= last; i++)
        line[i] = line[i] == '-' ? '=' : line[i];
}

/* band: of a step its average differs from its highest. */
static void write_axis(FILE *out, const struct graph *graph, bool band) {
    char line[COLUMNS + 1];
    memset(line, '-', COLUMNS);
    line[COLUMNS] = 0;
    const struct stats_file *record = graph->record;
    for (size_t i = 0; i < record->action_count; i++)
        if (record->actions[i]->device == graph->index)
            put_reclaim(line, graph, record->actions[i]);
    for (size_t i = 0; i < record->refusal_count; i++)
        if (record->refusals[i]->device == graph->index)
            put_letter(line, graph, record->refusals[i]->time_ns, 'X');
    for (size_t i = 0; i < record->mark_count; i++)
        put_letter(line, graph, record->marks[i]->time_ns, 'M');
    fprintf(out, "%*s +%s\n", LABEL, "0 B", line);
    char end[64];
    snprintf(end, sizeof end, "%s%s", is_cut(record) ? "Python ended at " : "",
             show_clock(graph->end_ns).text);
    fprintf(out, "%*s  0%*s\n", LABEL, "", COLUMNS - 1, end);
    fprintf(out, "%*s  # live%s  : held  . in part  %s  X no room  M mark\n",
            band ? LABEL - 9 : LABEL, "", band ? "  ^ live at times" : "",
            stats_file_mode(record->file) == MODE_OBSERVE ? "R would return"
            : strchr(line, '=')                           ? "R= returned"
                                                          : "R returned");
}

void graph_write(FILE *out, const struct stats_file *record, const struct vramgc_device *device,
                 size_t index) {
    struct graph graph = {.record = record, .device = device, .index = index};
    const struct vramgc_sample *highest = highest_sample(device);
    graph.end_ns = graph_end_ns(record, device);
    while (graph.sample_count < device->sample_count &&
           device->samples[graph.sample_count].time_ns <= graph.end_ns)
        graph.sample_count++;
    if (graph.sample_count < LEAST_POINTS || highest->held_bytes == 0 || graph.end_ns == 0)
        return;
    graph.top_bytes = (double)highest->held_bytes;
    fill_columns(&graph);
    fputc('\n', out);
    bool band = false;
    for (size_t row = ROWS; row-- > 0;)
        band |= write_graph_row(out, &graph, row);
    write_axis(out, &graph, band);
}

/* ---- whose it was ---- */

/* As many as one point has owners. */
enum { MOST_LINES = VRAMGC_WHO_OWNERS };

struct who_line {
    const struct vramgc_site *site; /* NULL: all others */
    uint64_t columns[COLUMNS];
    uint64_t most_bytes;
};

struct who_lines {
    const struct vramgc_file *file;
    bool by_function;
    size_t count;
    struct who_line list[MOST_LINES + 1]; /* the last: all others */
};

/* The line of a site, which is begun where there is none; of those without a phase, and of many,
 * the last. */
static struct who_line *who_line_of(struct who_lines *lines, const struct vramgc_site *site) {
    for (size_t i = 0; i < lines->count; i++)
        if (lines->by_function ? lines->list[i].site == site
                               : strcmp(lines->list[i].site->phase, site->phase) == 0)
            return &lines->list[i];
    if (lines->count == MOST_LINES || !(lines->by_function || *site->phase))
        return &lines->list[MOST_LINES];
    lines->list[lines->count].site = site;
    return &lines->list[lines->count++];
}

/* Notes one point, from its column until that of the next. */
static void add_point(struct who_lines *lines, const struct vramgc_who *who, size_t from,
                      size_t until) {
    uint64_t bytes[MOST_LINES + 1] = {0}, rest = who->live_bytes;
    for (uint32_t i = 0; i < who->count; i++) {
        bytes[who_line_of(lines, &lines->file->sites[who->sites[i]]) - lines->list] +=
            who_bytes(who, i);
        rest = minus_u64(rest, who_bytes(who, i));
    }
    bytes[MOST_LINES] += rest;
    for (size_t i = 0; i <= MOST_LINES; i++) {
        lines->list[i].most_bytes = max_u64(lines->list[i].most_bytes, bytes[i]);
        for (size_t column = from; column < max_u64(until, from + 1); column++)
            lines->list[i].columns[column] = max_u64(lines->list[i].columns[column], bytes[i]);
    }
}

static void write_who_line(FILE *out, const struct who_lines *lines, const struct who_line *line,
                           uint64_t top_bytes) {
    char digits[COLUMNS + 1] = "";
    for (size_t i = 0; i < COLUMNS; i++) {
        double tenths = 10 * (double)line->columns[i] / (double)top_bytes;
        digits[i] = (char)(tenths >= 1 ? '0' + (tenths < 9 ? (int)tenths : 9)
                           : line->columns[i] >= top_bytes / 100 ? '.'
                                                                 : ' ');
    }
    struct who_name name = who_name(line->site);
    if (lines->by_function)
        fprintf(out, "%*s  %.*s\n", LABEL, "", (int)bytes_of_columns(name.text, COLUMNS),
                line->site ? name.text : "all others");
    fprintf(out, "%*.*s|%s\n", LABEL + 1, LABEL + 1,
            lines->by_function ? ""
            : line->site       ? line->site->phase
                               : "other",
            digits);
}

void graph_who(FILE *out, const struct stats_file *record, const struct vramgc_device *device,
               bool by_function) {
    struct who_lines lines = {.file = record->file, .by_function = by_function};
    uint64_t end_ns = graph_end_ns(record, device), top_bytes = 0;
    for (uint64_t i = 0; i < device->who_count; i++) {
        const struct vramgc_who *who = &device->who[i];
        uint64_t until_ns = i + 1 < device->who_count ? who[1].time_ns : end_ns;
        top_bytes = max_u64(top_bytes, who->live_bytes);
        add_point(&lines, who, column_of(who->time_ns, end_ns),
                  column_of(until_ns, end_ns) + (until_ns == end_ns));
    }
    if (top_bytes == 0 || lines.count == 0)
        return;
    fprintf(out, "%*s  live memory by %s; each digit: tenths of %s\n", LABEL, "",
            by_function ? "Python function" : "phase", show_bytes(top_bytes).text);
    for (size_t i = 0; i <= MOST_LINES; i++)
        if (lines.list[i].most_bytes >= top_bytes / 100)
            write_who_line(out, &lines, &lines.list[i], top_bytes);
}
