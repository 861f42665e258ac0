/* model.c: see model.h. Nothing here may be clever. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

uint64_t model_address(size_t cell) {
    return MODEL_BASE + cell * MODEL_CELL_BYTES;
}

void model_clear(struct model *model) {
    for (int i = 0; i < model->aside_count; i++)
        free(model->segments[model->aside[i]].aside);
    memset(model, 0, sizeof *model);
    for (size_t i = 0; i < MODEL_CELLS; i++)
        model->cells[i].segment = -1;
}

/* ---- segments ---- */

static bool is_vacant(const struct model *model, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        if (model->cells[i].segment >= 0)
            return false;
    return true;
}

bool model_add(struct model *model, struct model_segment segment) {
    if (segment.count == 0 || !is_vacant(model, segment.first, segment.count))
        return false;
    int index = model->segment_count++;
    enum heap_state state = segment.kind == HEAP_NATIVE ? HEAP_FREE : HEAP_UNMAPPED;
    model->segments[index] = segment;
    for (size_t i = 0; i < segment.count; i++)
        model->cells[segment.first + i] = (struct cell){index, state, false};
    return true;
}

bool model_remove(struct model *model, size_t first, size_t *count) {
    int index = model->cells[first].segment;
    if (index < 0 || model->segments[index].first != first)
        return false;
    struct model_segment *segment = &model->segments[index];
    size_t bytes = segment->count * sizeof(struct cell);
    segment->aside = malloc(bytes);
    memcpy(segment->aside, &model->cells[first], bytes);
    for (size_t i = 0; i < segment->count; i++)
        model->cells[first + i] = (struct cell){.segment = -1};
    model->aside[model->aside_count++] = index;
    *count = segment->count;
    return true;
}

static void drop_aside(struct model *model, int place) {
    struct model_segment *segment = &model->segments[model->aside[place]];
    free(segment->aside);
    segment->aside = NULL;
    for (int i = place; i + 1 < model->aside_count; i++)
        model->aside[i] = model->aside[i + 1];
    model->aside_count--;
}

bool model_restore(struct model *model, size_t first) {
    int place = model->aside_count - 1;
    while (place >= 0 && model->segments[model->aside[place]].first != first)
        place--;
    if (place < 0)
        return false;
    struct model_segment *segment = &model->segments[model->aside[place]];
    if (!is_vacant(model, first, segment->count))
        return false;
    memcpy(&model->cells[first], segment->aside, segment->count * sizeof(struct cell));
    drop_aside(model, place);
    return true;
}

void model_forget(struct model *model, size_t first) {
    for (int place = 0; place < model->aside_count; place++)
        if (model->segments[model->aside[place]].first == first) {
            drop_aside(model, place);
            return;
        }
}

/* ---- cells ---- */

static bool all_are(const struct model *model, size_t first, size_t count, enum heap_state state) {
    int segment = model->cells[first].segment;
    for (size_t i = first; i < first + count; i++)
        if (i >= MODEL_CELLS || model->cells[i].segment != segment ||
            model->cells[i].state != state)
            return false;
    return segment >= 0 && count > 0;
}

static void set_all(struct model *model, size_t first, size_t count, enum heap_state state) {
    for (size_t i = first; i < first + count; i++) {
        model->cells[i].state = state;
        model->cells[i].begins = false;
    }
}

bool model_map(struct model *model, size_t first, size_t count) {
    if (!all_are(model, first, count, HEAP_UNMAPPED))
        return false;
    struct model_segment *segment = &model->segments[model->cells[first].segment];
    if (segment->page_cells == 0)
        segment->page_cells = count;
    set_all(model, first, count, HEAP_FREE);
    return true;
}

bool model_unmap(struct model *model, size_t first, size_t count) {
    if (!all_are(model, first, count, HEAP_FREE))
        return false;
    if (model->segments[model->cells[first].segment].kind == HEAP_NATIVE)
        return false;
    set_all(model, first, count, HEAP_UNMAPPED);
    return true;
}

bool model_allocate(struct model *model, size_t first, size_t count) {
    if (!all_are(model, first, count, HEAP_FREE))
        return false;
    set_all(model, first, count, HEAP_ALLOCATED);
    model->cells[first].begins = true;
    return true;
}

static bool is_block(enum heap_state state) {
    return state == HEAP_ALLOCATED || state == HEAP_PENDING;
}

/* How many cells from this one on are one run. */
static size_t run_length(const struct model *model, size_t first) {
    const struct cell *start = &model->cells[first];
    size_t count = 1;
    for (size_t i = first + 1; i < MODEL_CELLS; i++, count++) {
        const struct cell *cell = &model->cells[i];
        if (cell->segment != start->segment || cell->state != start->state || cell->begins)
            break;
    }
    return count;
}

bool model_turn_block(struct model *model, size_t first, enum heap_state from, enum heap_state to,
                      size_t *count) {
    struct cell *cell = &model->cells[first];
    if (cell->segment < 0 || cell->state != from || !cell->begins)
        return false;
    *count = run_length(model, first);
    set_all(model, first, *count, to);
    cell->begins = is_block(to);
    return true;
}

/* ---- answers ---- */

static bool begins_run(const struct model *model, size_t cell) {
    const struct cell *now = &model->cells[cell];
    if (now->segment < 0)
        return false;
    if (cell == 0 || now->begins)
        return true;
    const struct cell *before = now - 1;
    return before->segment != now->segment || before->state != now->state;
}

static bool is_mapped(const struct model *model, size_t cell, int segment) {
    return cell < MODEL_CELLS && model->cells[cell].segment == segment &&
           model->cells[cell].state != HEAP_UNMAPPED;
}

struct heap_run model_run(const struct model *model, size_t cell, size_t *next) {
    int index = model->cells[cell].segment;
    *next = cell + run_length(model, cell);
    size_t first = cell;
    size_t last = *next;
    if (is_mapped(model, cell, index)) {
        while (first > 0 && is_mapped(model, first - 1, index))
            first--;
        while (is_mapped(model, last, index))
            last++;
    }
    return (struct heap_run){
        .address = model_address(cell),
        .bytes = (*next - cell) * MODEL_CELL_BYTES,
        .state = model->cells[cell].state,
        .kind = model->segments[index].kind,
        .segment_address = model_address(first),
        .segment_bytes = (last - first) * MODEL_CELL_BYTES,
        .stream = model->segments[index].stream,
    };
}

static bool is_free_segment(const struct model *model, int index) {
    const struct model_segment *segment = &model->segments[index];
    return all_are(model, segment->first, segment->count, HEAP_FREE);
}

static void count_cell(const struct model *model, size_t i, struct heap_figures *figures) {
    const struct cell *cell = &model->cells[i];
    bool is_native = model->segments[cell->segment].kind == HEAP_NATIVE;
    figures->reserved_bytes += cell->state != HEAP_UNMAPPED ? MODEL_CELL_BYTES : 0;
    figures->allocated_bytes += cell->state == HEAP_ALLOCATED ? MODEL_CELL_BYTES : 0;
    figures->active_bytes += is_block(cell->state) ? MODEL_CELL_BYTES : 0;
    figures->blocks += cell->state == HEAP_ALLOCATED && cell->begins;
    figures->free_runs += cell->state == HEAP_FREE && begins_run(model, i);
    figures->segments +=
        is_mapped(model, i, cell->segment) && (i == 0 || !is_mapped(model, i - 1, cell->segment));
    if (!is_native || cell->state != HEAP_FREE)
        return;
    if (is_free_segment(model, cell->segment))
        figures->releasable_bytes += MODEL_CELL_BYTES;
    else
        figures->inactive_split_bytes += MODEL_CELL_BYTES;
}

/* Pages of which the first cell is i: of the address, and of the expandable segment. */
static void count_pages(const struct model *model, size_t i, struct heap_figures *figures) {
    const struct model_segment *segment = &model->segments[model->cells[i].segment];
    if (model_address(i) % PAGE_BYTES == 0 &&
        all_are(model, i, PAGE_BYTES / MODEL_CELL_BYTES, HEAP_FREE))
        figures->idle_bytes += PAGE_BYTES;
    if (segment->kind == HEAP_EXPANDABLE && segment->page_cells > 0 &&
        (i - segment->first) % segment->page_cells == 0 &&
        all_are(model, i, segment->page_cells, HEAP_FREE))
        figures->releasable_bytes += segment->page_cells * MODEL_CELL_BYTES;
}

struct heap_figures model_figures(const struct model *model) {
    struct heap_figures figures = {0};
    for (size_t i = 0; i < MODEL_CELLS; i++)
        if (model->cells[i].segment >= 0) {
            count_cell(model, i, &figures);
            count_pages(model, i, &figures);
        }
    return figures;
}
