/* test_heap_random.c: the shadow heap against its naive twin: random operations, sensible and
 * senseless ones, and after each step everything that can be asked is compared. */
#include "unit.h"

#include "model.h"

#include <stdio.h>

#define STEPS_PER_SEED 20000

struct pair {
    struct heap *heap;
    struct model *model;
    uint64_t random;
};

static struct model the_model;

/* xorshift64 (Marsaglia 2003). */
static size_t below(struct pair *pair, size_t limit) {
    pair->random ^= pair->random << 13;
    pair->random ^= pair->random >> 7;
    pair->random ^= pair->random << 17;
    return (size_t)((pair->random >> 20) % limit);
}

static bool one_in(struct pair *pair, size_t n) {
    return below(pair, n) == 0;
}

/* A random cell, moved on to the next one that begins a run of the state, if there is any. */
static size_t cell_with(struct pair *pair, enum heap_state state) {
    const struct cell *cells = pair->model->cells;
    size_t start = below(pair, MODEL_CELLS);
    if (one_in(pair, 8))
        return start;
    for (size_t i = 0; i < MODEL_CELLS; i++) {
        size_t at = (start + i) % MODEL_CELLS;
        bool begins = cells[at].begins || at == 0 || cells[at - 1].state != state ||
                      cells[at - 1].segment != cells[at].segment;
        if (cells[at].segment >= 0 && cells[at].state == state && begins)
            return at;
    }
    return start;
}

static size_t segment_cell(struct pair *pair) {
    const struct model *model = pair->model;
    size_t cell = below(pair, MODEL_CELLS);
    if (model->cells[cell].segment < 0 || one_in(pair, 8))
        return cell;
    return model->segments[model->cells[cell].segment].first;
}

static size_t aside_cell(struct pair *pair) {
    const struct model *model = pair->model;
    if (model->aside_count == 0 || one_in(pair, 8))
        return below(pair, MODEL_CELLS);
    return model->segments[model->aside[below(pair, (size_t)model->aside_count)]].first;
}

/* ---- one step of each kind ---- */

static void add(struct pair *pair) {
    static const size_t pages[] = {0, 1, 8, 80};
    size_t first = one_in(pair, 3) ? aside_cell(pair) : below(pair, MODEL_CELLS);
    size_t count = below(pair, MODEL_CELLS - first + 1) % 160;
    struct model_segment segment = {.first = first, .count = count, .kind = HEAP_NATIVE};
    uint64_t bytes = count * MODEL_CELL_BYTES;
    if (one_in(pair, 2)) {
        segment.stream = below(pair, 3);
        assert_int_equal(model_add(pair->model, segment),
                         heap_segment_add(pair->heap, model_address(first), bytes, segment.stream));
        return;
    }
    segment.kind = HEAP_EXPANDABLE;
    segment.page_cells = pages[below(pair, 4)];
    assert_int_equal(model_add(pair->model, segment),
                     heap_range_add(pair->heap, model_address(first), bytes,
                                    segment.page_cells * MODEL_CELL_BYTES));
}

static void remove_segment(struct pair *pair) {
    if (!one_in(pair, 3)) /* else the heap stays nearly empty */
        return;
    size_t first = segment_cell(pair);
    size_t count = 0;
    uint64_t bytes = 0;
    bool removed = model_remove(pair->model, first, &count);
    assert_int_equal(removed, heap_segment_remove(pair->heap, model_address(first), &bytes));
    assert_int_equal(bytes, count * MODEL_CELL_BYTES);
}

static void restore_or_forget(struct pair *pair) {
    size_t first = aside_cell(pair);
    if (one_in(pair, 2)) {
        assert_int_equal(model_restore(pair->model, first),
                         heap_segment_restore(pair->heap, model_address(first)));
        return;
    }
    model_forget(pair->model, first);
    heap_segment_forget(pair->heap, model_address(first));
}

/* Somewhere from the first cell of a run of the state on, or at its beginning. */
static size_t place_in(struct pair *pair, enum heap_state state) {
    size_t first = cell_with(pair, state) + (one_in(pair, 2) ? below(pair, 12) : 0);
    return first < MODEL_CELLS ? first : MODEL_CELLS - 1;
}

static void map(struct pair *pair) {
    size_t first = place_in(pair, HEAP_UNMAPPED);
    size_t count = below(pair, 24);
    assert_int_equal(model_map(pair->model, first, count),
                     heap_map(pair->heap, model_address(first), count * MODEL_CELL_BYTES));
}

static void unmap(struct pair *pair) {
    size_t first = place_in(pair, HEAP_FREE);
    size_t count = below(pair, 24);
    assert_int_equal(model_unmap(pair->model, first, count),
                     heap_unmap(pair->heap, model_address(first), count * MODEL_CELL_BYTES));
}

static void allocate(struct pair *pair) {
    size_t first = place_in(pair, HEAP_FREE);
    size_t count = below(pair, one_in(pair, 16) ? 40 : 5);
    assert_int_equal(model_allocate(pair->model, first, count),
                     heap_allocate(pair->heap, model_address(first), count * MODEL_CELL_BYTES));
}

static void give_back(struct pair *pair) {
    size_t first = cell_with(pair, HEAP_ALLOCATED);
    bool pends = one_in(pair, 4);
    size_t count = 0;
    struct heap_block block = {0};
    bool given = model_turn_block(pair->model, first, HEAP_ALLOCATED,
                                  pends ? HEAP_PENDING : HEAP_FREE, &count);
    uint64_t address = model_address(first);
    assert_int_equal(given, pends ? heap_pend(pair->heap, address, &block)
                                  : heap_free(pair->heap, address, &block));
    assert_int_equal(block.bytes, count * MODEL_CELL_BYTES);
}

static void complete(struct pair *pair) {
    size_t first = cell_with(pair, HEAP_PENDING);
    size_t count = 0;
    assert_int_equal(model_turn_block(pair->model, first, HEAP_PENDING, HEAP_FREE, &count),
                     heap_complete(pair->heap, model_address(first)));
}

static void step(struct pair *pair) {
    static void (*const kinds[])(struct pair *) = {
        allocate,          allocate, allocate,  allocate,  allocate,       allocate, allocate,
        allocate,          map,      map,       map,       unmap,          add,      add,
        restore_or_forget, complete, give_back, give_back, remove_segment,
    };
    if (one_in(pair, 3000) || pair->model->segment_count == MODEL_MAX_SEGMENTS) {
        heap_clear(pair->heap);
        model_clear(pair->model);
        return;
    }
    kinds[below(pair, sizeof kinds / sizeof kinds[0])](pair);
}

/* ---- the comparison ---- */

struct walk {
    const struct model *model;
    size_t cell;
};

static size_t skip_vacant(const struct model *model, size_t cell) {
    while (cell < MODEL_CELLS && model->cells[cell].segment < 0)
        cell++;
    return cell;
}

static bool compare_run(const struct heap_run *run, void *context) {
    struct walk *walk = context;
    size_t cell = skip_vacant(walk->model, walk->cell);
    assert_true(cell < MODEL_CELLS);
    struct heap_run expected = model_run(walk->model, cell, &walk->cell);
    assert_int_equal(run->address, expected.address);
    assert_int_equal(run->bytes, expected.bytes);
    assert_int_equal(run->state, expected.state);
    assert_int_equal(run->kind, expected.kind);
    assert_int_equal(run->segment_address, expected.segment_address);
    assert_int_equal(run->segment_bytes, expected.segment_bytes);
    assert_int_equal(run->stream, expected.stream);
    return true;
}

static void compare_figures(const struct heap_figures *is, const struct heap_figures *should) {
    assert_int_equal(is->reserved_bytes, should->reserved_bytes);
    assert_int_equal(is->allocated_bytes, should->allocated_bytes);
    assert_int_equal(is->active_bytes, should->active_bytes);
    assert_int_equal(is->inactive_split_bytes, should->inactive_split_bytes);
    assert_int_equal(is->releasable_bytes, should->releasable_bytes);
    assert_int_equal(is->idle_bytes, should->idle_bytes);
    assert_int_equal(is->segments, should->segments);
    assert_int_equal(is->blocks, should->blocks);
    assert_int_equal(is->free_runs, should->free_runs);
}

static void compare_look_ups(struct pair *pair) {
    size_t cell = below(pair, MODEL_CELLS);
    int index = pair->model->cells[cell].segment;
    enum heap_kind kind = HEAP_NATIVE;
    uint64_t address = model_address(cell) + below(pair, MODEL_CELL_BYTES);
    assert_int_equal(heap_contains(pair->heap, address, &kind), index >= 0);
    if (index >= 0)
        assert_int_equal(kind, pair->model->segments[index].kind);
}

static void compare(struct pair *pair) {
    assert_true(heap_is_valid(pair->heap));
    struct heap_figures expected = model_figures(pair->model);
    compare_figures(heap_figures(pair->heap), &expected);
    struct walk walk = {.model = pair->model};
    heap_walk(pair->heap, compare_run, &walk);
    assert_int_equal(skip_vacant(walk.model, walk.cell), MODEL_CELLS);
    compare_look_ups(pair);
}

/* ---- what the run has seen, so that it cannot pass by doing nothing ---- */

struct seen {
    uint64_t most_blocks, most_releasable_bytes, most_idle_bytes, most_split_bytes;
    int most_aside;
    bool had_pending;
};

static void note(struct seen *seen, const struct pair *pair) {
    const struct heap_figures *figures = heap_figures(pair->heap);
#define KEEP_MOST(field, value) seen->field = (value) > seen->field ? (value) : seen->field
    KEEP_MOST(most_blocks, figures->blocks);
    KEEP_MOST(most_releasable_bytes, figures->releasable_bytes);
    KEEP_MOST(most_idle_bytes, figures->idle_bytes);
    KEEP_MOST(most_split_bytes, figures->inactive_split_bytes);
    KEEP_MOST(most_aside, pair->model->aside_count);
#undef KEEP_MOST
    seen->had_pending |= figures->active_bytes > figures->allocated_bytes;
}

static void run_seed(uint64_t seed) {
    struct pair pair = {heap_create(), &the_model, seed * UINT64_C(0x9E3779B97F4A7C15)};
    struct seen seen = {0};
    assert_non_null(pair.heap);
    model_clear(&the_model);
    for (int i = 0; i < STEPS_PER_SEED; i++) {
        step(&pair);
        compare(&pair);
        note(&seen, &pair);
    }
    assert_true(seen.most_blocks > 60 && seen.most_aside > 2 && seen.had_pending);
    assert_true(seen.most_releasable_bytes && seen.most_idle_bytes && seen.most_split_bytes);
    heap_destroy(pair.heap);
    model_clear(&the_model);
}

static void equals_the_model(void **state) {
    (void)state;
    uint64_t first = unit_seed(1);
    for (uint64_t seed = first; seed < first + 6; seed++) {
        print_message("seed %d\n", (int)seed);
        run_seed(seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
