/* graph.c: the timeline of a device in plain ASCII, so that it survives being pasted. */
#include "show/graph.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"

#include <string.h>

enum { COLUMNS = 60, ROWS = 8, LABEL = 10, LEAST_POINTS = 4 };

/* Highest figures of the samples that fall into one column. */
struct column {
    double held;
    double live;
};

struct graph {
    const struct stats_file *record;
    const struct vramgc_device *device;
    size_t index;
    uint64_t end_ns;
    double top_bytes;
    struct column columns[COLUMNS];
};

static size_t column_of(const struct graph *graph, uint64_t time_ns) {
    double place = (double)time_ns / (double)graph->end_ns * COLUMNS;
    return place < COLUMNS ? (size_t)place : COLUMNS - 1;
}

/* A column without a sample shows what held since the one before. */
static void fill_columns(struct graph *graph) {
    bool seen[COLUMNS] = {false};
    for (uint64_t i = 0; i < graph->device->sample_count; i++) {
        const struct vramgc_sample *sample = &graph->device->samples[i];
        size_t place = column_of(graph, sample->time_ns);
        struct column *column = &graph->columns[place];
        if (!seen[place] || (double)sample->held_bytes > column->held)
            column->held = (double)sample->held_bytes;
        if (!seen[place] || (double)sample->allocated_bytes > column->live)
            column->live = (double)sample->allocated_bytes;
        seen[place] = true;
    }
    for (size_t i = 1; i < COLUMNS; i++)
        if (!seen[i])
            graph->columns[i] = graph->columns[i - 1];
}

static void write_row(FILE *out, const struct graph *graph, size_t row) {
    char line[COLUMNS + 1];
    double step = graph->top_bytes / ROWS, low = step * (double)row;
    for (size_t i = 0; i < COLUMNS; i++) {
        const struct column *column = &graph->columns[i];
        line[i] = column->live > low + step / 2   ? '#'
                  : column->held > low + step / 2 ? ':'
                  : column->held > low            ? '.'
                                                  : ' ';
    }
    line[COLUMNS] = 0;
    bool labelled = row + 1 == ROWS || row + 1 == ROWS / 2;
    fprintf(out, "%*s |%.*s\n", LABEL, labelled ? show_bytes(to_u64(low + step)).text : "", COLUMNS,
            line);
}

static void put(char *line, const struct graph *graph, uint64_t time_ns, char letter) {
    char *place = &line[column_of(graph, time_ns)];
    if (letter == 'X' || *place == '-')
        *place = letter;
}

static void write_axis(FILE *out, const struct graph *graph) {
    char line[COLUMNS + 1];
    memset(line, '-', COLUMNS);
    line[COLUMNS] = 0;
    const struct stats_file *record = graph->record;
    for (size_t i = 0; i < record->action_count; i++)
        if (record->actions[i]->device == graph->index)
            put(line, graph, record->actions[i]->time_ns, 'R');
    for (size_t i = 0; i < record->refusal_count; i++)
        if (record->refusals[i]->device == graph->index)
            put(line, graph, record->refusals[i]->time_ns, 'X');
    for (size_t i = 0; i < record->mark_count; i++)
        put(line, graph, record->marks[i]->time_ns, 'M');
    fprintf(out, "%*s +%s\n", LABEL, "0 B", line);
    struct figure end = show_clock(graph->end_ns);
    fprintf(out, "%*s  0%*s\n", LABEL, "", COLUMNS - 1, end.text);
    fprintf(out, "%*s  # live  : held  . held in part  R reclaim  X refused  M mark\n", LABEL, "");
}

void graph_write(FILE *out, const struct stats_file *record, const struct vramgc_device *device,
                 size_t index) {
    struct graph graph = {.record = record, .device = device, .index = index};
    const struct vramgc_sample *highest = highest_sample(device);
    if (device->sample_count < LEAST_POINTS || highest->held_bytes == 0)
        return;
    graph.end_ns = max_u64(record->elapsed_ns, device->samples[device->sample_count - 1].time_ns);
    if (graph.end_ns == 0)
        return;
    graph.top_bytes = (double)highest->held_bytes;
    fill_columns(&graph);
    fputc('\n', out);
    for (size_t row = ROWS; row-- > 0;)
        write_row(out, &graph, row);
    write_axis(out, &graph);
}
