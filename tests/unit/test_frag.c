/* test_frag.c: the fragmentation figures against a count byte by byte (cell by cell). */
#include "unit.h"

#include "heap/heap.h"

#include <string.h>

#define BASE       UINT64_C(0x7f0000000000)
#define CELL       (64 * KIB)
#define CELLS      1024
#define PAGE_CELLS (PAGE_BYTES / CELL)

enum { NOTHING, HOLE, ACTIVE };

/* What each cell is. Holes end at segment borders, which `border` marks. */
struct map {
    int cells[CELLS + 1];
    bool border[CELLS + 1];
};

static uint64_t random_state;

static size_t below(size_t limit) {
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (size_t)((random_state >> 33) % limit);
}

static void fill_segment(struct heap *heap, struct map *map, size_t first, size_t count) {
    bool expandable = below(2);
    uint64_t address = BASE + 5 * CELL + first * CELL; /* pages do not begin with the cells */
    if (expandable) {
        assert_true(heap_range_add(heap, address, count * CELL, 2 * MIB));
        count -= count / 4; /* the end stays unmapped */
        assert_true(heap_map(heap, address, count * CELL));
    } else {
        assert_true(heap_segment_add(heap, address, count * CELL, 0));
    }
    map->border[first] = true;
    for (size_t i = 0; i < count; i++)
        map->cells[first + i] = HOLE;
    for (size_t i = below(60); i < count; i += 1 + below(60)) {
        size_t length = 1 + below(count - i < 50 ? count - i : 50);
        assert_true(heap_allocate(heap, address + i * CELL, length * CELL));
        if (below(4) == 0)
            assert_true(heap_pend(heap, address + i * CELL, NULL));
        for (size_t k = 0; k < length; k++)
            map->cells[first + i + k] = ACTIVE;
        i += length;
    }
}

static void fill(struct heap *heap, struct map *map) {
    memset(map, 0, sizeof *map);
    for (size_t first = below(40); first + 4 < CELLS;) {
        size_t count = 4 + below(300);
        if (first + count > CELLS)
            count = CELLS - first;
        fill_segment(heap, map, first, count);
        first += count + (below(2) ? below(40) : 0);
    }
    map->border[CELLS] = true;
}

static void count_hole(struct frag_figures *figures, uint64_t bytes) {
    figures->free_bytes += bytes;
    figures->free_runs++;
    if (bytes > figures->largest_hole_bytes)
        figures->largest_hole_bytes = bytes;
}

static uint64_t count_waste(const struct map *map) {
    uint64_t waste = 0;
    for (size_t i = 0; i < CELLS; i++) {
        size_t page = (i + 5) / PAGE_CELLS;
        bool has_active = false;
        for (size_t k = 0; k < CELLS; k++)
            has_active |= (k + 5) / PAGE_CELLS == page && map->cells[k] == ACTIVE;
        waste += has_active && map->cells[i] == HOLE ? CELL : 0;
    }
    return waste;
}

static struct frag_figures count_all(const struct map *map) {
    struct frag_figures figures = {.page_waste_bytes = count_waste(map)};
    uint64_t hole = 0;
    for (size_t i = 0; i <= CELLS; i++) {
        bool ends = map->border[i] || map->cells[i] != HOLE;
        if (ends && hole) {
            count_hole(&figures, hole);
            hole = 0;
        }
        hole += map->cells[i] == HOLE ? CELL : 0;
    }
    return figures;
}

static void equals_a_naive_count(void **state) {
    static struct map map;
    uint64_t waste = 0, first = unit_seed(1);
    (void)state;
    for (uint64_t seed = first; seed < first + 60; seed++) {
        random_state = seed;
        struct heap *heap = heap_create();
        fill(heap, &map);
        struct frag_figures is;
        struct frag_figures should = count_all(&map);
        memset(&is, 0xff, sizeof is);
        frag_measure(heap, &is);
        assert_memory_equal(&is, &should, sizeof is);
        waste += is.page_waste_bytes;
        heap_destroy(heap);
    }
    assert_true(waste > 0);
}

static void an_empty_heap_has_no_holes(void **state) {
    struct heap *heap = heap_create();
    struct frag_figures figures;
    (void)state;
    frag_measure(heap, &figures);
    assert_int_equal(figures.free_bytes, 0);
    assert_int_equal(figures.free_runs, 0);
    assert_int_equal(figures.page_waste_bytes, 0);
    heap_destroy(heap);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_naive_count),
        cmocka_unit_test(an_empty_heap_has_no_holes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
