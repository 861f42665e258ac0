/* test_frag.c: the fragmentation figures against a count byte by byte (cell by cell), and the
 * indices against values worked out by hand from their definitions. */
#include "unit.h"

#include "frag/frag.h"
#include "heap/heap.h"

#include <math.h>
#include <string.h>

#define BASE       UINT64_C(0x7f0000000000)
#define CELL       (64 * KIB)
#define CELLS      1024
#define PAGE_CELLS (HEAP_PAGE_BYTES / CELL)

static void assert_near(double is, double should) {
    if (!(fabs(is - should) <= 1e-9)) /* also for what is not a number */
        fail_msg("%.12f is not %.12f", is, should);
}

/* ---- against a naive count ---- */

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
    unsigned class = 0;
    while (class + 1 < FRAG_CLASSES && bytes >> (class + 1))
        class ++;
    figures->free_bytes += bytes;
    figures->free_runs++;
    figures->class_runs[class]++;
    figures->class_bytes[class] += bytes;
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
    uint64_t waste = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
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

/* ---- by hand ---- */

static struct frag_figures with_holes(size_t count, const uint64_t *holes) {
    struct frag_figures figures = {0};
    for (size_t i = 0; i < count; i++)
        count_hole(&figures, holes[i]);
    return figures;
}
#define HOLES(...)                                                                                 \
    with_holes(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (uint64_t[]){__VA_ARGS__})

static void an_empty_heap_is_not_fragmented(void **state) {
    struct heap *heap = heap_create();
    struct frag_figures figures;
    (void)state;
    frag_measure(heap, &figures);
    assert_int_equal(figures.free_bytes, 0);
    assert_near(frag_external(&figures), 0);
    assert_near(frag_unusable(&figures, MIB), 0);
    assert_near(frag_index(&figures, MIB), 0);
    assert_near(frag_index(&figures, 0), 0);
    heap_destroy(heap);
}

static void classes_are_powers_of_two(void **state) {
    struct heap *heap = heap_create();
    struct frag_figures figures;
    (void)state;
    heap_segment_add(heap, BASE, 2 * MIB - 1, 0);
    heap_segment_add(heap, BASE + GIB, 2 * MIB, 0);
    heap_segment_add(heap, BASE + 2 * GIB, 1, 0);
    heap_segment_add(heap, BASE + (UINT64_C(1) << 44), UINT64_C(1) << 43, 0);
    frag_measure(heap, &figures);
    assert_int_equal(figures.class_runs[20], 1);
    assert_int_equal(figures.class_bytes[21], 2 * MIB);
    assert_int_equal(figures.class_runs[0], 1);
    assert_int_equal(figures.class_bytes[FRAG_CLASSES - 1], UINT64_C(1) << 43);
    heap_destroy(heap);
}

static void external_is_what_is_not_in_the_largest_hole(void **state) {
    (void)state;
    struct frag_figures one = HOLES(7 * MIB);
    struct frag_figures four = HOLES(MIB, MIB, 5 * MIB, 3 * MIB);
    assert_near(frag_external(&one), 0);
    assert_near(frag_external(&four), 0.5);
}

static void unusable_is_what_is_too_small(void **state) {
    (void)state;
    struct frag_figures figures = HOLES(MIB, MIB, 2 * MIB, 3 * MIB, 9 * MIB);
    assert_near(frag_unusable(&figures, 1), 0);
    assert_near(frag_unusable(&figures, 0), 0);
    assert_near(frag_unusable(&figures, MIB), 0);
    assert_near(frag_unusable(&figures, 2 * MIB), 2.0 / 16);
    assert_near(frag_unusable(&figures, 2 * MIB + 1), 7.0 / 16);
    assert_near(frag_unusable(&figures, 4 * MIB), 7.0 / 16);
    assert_near(frag_unusable(&figures, 9 * MIB), 7.0 / 16);
    assert_near(frag_unusable(&figures, 9 * MIB + 1), 1);
    assert_near(frag_unusable(&figures, 64 * MIB), 1);
    assert_near(frag_unusable(&figures, UINT64_MAX), 1);
}

/* In the request's own class the hole of 2.9 MiB could serve it, but is not known to. */
static void unusable_is_never_too_low(void **state) {
    (void)state;
    struct frag_figures figures = HOLES(2 * MIB, 2900 * KIB, 3 * MIB);
    double exact = (double)(2 * MIB) / (double)figures.free_bytes;
    double bound = (double)(2 * MIB + 2900 * KIB) / (double)figures.free_bytes;
    assert_true(frag_unusable(&figures, 2500 * KIB) >= exact);
    assert_near(frag_unusable(&figures, 2500 * KIB), bound);
    struct frag_figures huge = HOLES(UINT64_C(1) << 41, UINT64_C(1) << 43);
    assert_near(frag_unusable(&huge, UINT64_C(1) << 42), 0.2);
    assert_near(frag_unusable(&huge, UINT64_C(1) << 39), 0);
}

static void index_tells_lack_from_fragmentation(void **state) {
    (void)state;
    struct frag_figures many = HOLES(MIB, MIB, MIB, MIB, MIB, MIB, MIB, MIB, MIB, MIB);
    struct frag_figures one = HOLES(MIB);
    assert_near(frag_index(&many, MIB), -1);
    assert_near(frag_index(&many, MIB - 1), -1);
    assert_near(frag_index(&many, 2 * MIB), 0.4);  /* 1 - (1 + 10/2) / 10 */
    assert_near(frag_index(&many, 10 * MIB), 0.8); /* 1 - (1 + 10/10) / 10 */
    assert_near(frag_index(&one, 2 * MIB), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_naive_count),
        cmocka_unit_test(an_empty_heap_is_not_fragmented),
        cmocka_unit_test(classes_are_powers_of_two),
        cmocka_unit_test(external_is_what_is_not_in_the_largest_hole),
        cmocka_unit_test(unusable_is_what_is_too_small),
        cmocka_unit_test(unusable_is_never_too_low),
        cmocka_unit_test(index_tells_lack_from_fragmentation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
