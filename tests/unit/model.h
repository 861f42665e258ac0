/* model.h: a naive twin of the shadow heap to compare it with: an array of cells of 256 KiB, each
 * with its state, and every answer counted anew by looking at all of them. Slow and plain on
 * purpose: it shares no code and no idea with src/heap but the enums. */
#ifndef MODEL_H
#define MODEL_H

#include "heap/heap.h"

#define MODEL_CELLS      768
#define MODEL_CELL_BYTES ((uint64_t)256 << 10)
/* 3 cells behind a 2 MiB boundary, so that pages by address and by segment differ. */
#define MODEL_BASE         (UINT64_C(0x7f0000000000) + 3 * MODEL_CELL_BYTES)
#define MODEL_MAX_SEGMENTS 4096

struct cell {
    int segment; /* -1: none */
    enum heap_state state;
    bool begins; /* a block begins here */
};

struct model_segment {
    size_t first, count; /* cells */
    enum heap_kind kind;
    size_t page_cells; /* expandable: 0 until known */
    uint64_t stream;
    struct cell *aside; /* a copy of its cells while it is set aside */
};

struct model {
    struct cell cells[MODEL_CELLS];
    struct model_segment segments[MODEL_MAX_SEGMENTS]; /* in the order they were added */
    int segment_count;
    int aside[MODEL_MAX_SEGMENTS]; /* in the order they were set aside */
    int aside_count;
};

uint64_t model_address(size_t cell);

/* Each does what the heap_ function of that name does, in cells, and returns what it must. */
void model_clear(struct model *model);
bool model_add(struct model *model, struct model_segment segment);
bool model_remove(struct model *model, size_t first, size_t *count);
bool model_restore(struct model *model, size_t first);
void model_forget(struct model *model, size_t first);
bool model_map(struct model *model, size_t first, size_t count);
bool model_unmap(struct model *model, size_t first, size_t count);
bool model_allocate(struct model *model, size_t first, size_t count);
bool model_turn_block(struct model *model, size_t first, enum heap_state from, enum heap_state to,
                      size_t *count);
struct heap_figures model_figures(const struct model *model);

/* The run that begins at the cell, which is the first of a run; *next is the cell behind it. */
struct heap_run model_run(const struct model *model, size_t cell, size_t *next);

#endif
