/* test_books.c: the memory a heap's books are made of: nodes and the hash. */
#include "unit.h"

#include "heap/books.h"

#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

#define NODE_BYTES 64

/* Takes all that was promised and fills each with its number; if two shared a byte, or one lay
 * outside its chunk, the check or the processor would notice. */
static size_t take_all(struct nodes *nodes, unsigned char **taken, size_t count) {
    while (nodes->available > 0) {
        taken[count] = nodes_take(nodes);
        memset(taken[count], (int)(count % 251), NODE_BYTES);
        count++;
    }
    return count;
}

static void every_promised_node_is_there_and_its_own(void **state) {
    static unsigned char *taken[40000];
    struct nodes nodes = {.node_bytes = NODE_BYTES};
    size_t count = 0;
    (void)state;
    for (size_t left = 1; count < 30000; left = left * 3 % 7) {
        /* Some nodes of the old chunk are left when the next one comes. */
        assert_true(nodes_reserve(&nodes, nodes.available + left));
        while (nodes.available > left) {
            taken[count] = nodes_take(&nodes);
            memset(taken[count], (int)(count % 251), NODE_BYTES);
            count++;
        }
    }
    count = take_all(&nodes, taken, count);
    assert_int_equal(nodes.used, count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < NODE_BYTES; k++)
            assert_int_equal(taken[i][k], i % 251);
    nodes_release(&nodes);
}

static void nodes_given_back_are_used_again(void **state) {
    struct nodes nodes = {.node_bytes = NODE_BYTES};
    void *taken[100];
    (void)state;
    assert_true(nodes_reserve(&nodes, 100));
    size_t available = nodes.available;
    for (int round = 0; round < 1000; round++) {
        assert_true(nodes_reserve(&nodes, 100));
        for (size_t i = 0; i < 100; i++)
            taken[i] = nodes_take(&nodes);
        for (size_t i = 0; i < 100; i++)
            nodes_give(&nodes, taken[i]);
    }
    assert_int_equal(nodes.available, available);
    assert_int_equal(nodes.used, 0);
    nodes_release(&nodes);
    assert_int_equal(nodes.available, 0);
}

/* ---- the hash ---- */

#define KEYS 500

/* Scattered (the mixing step of splitmix64), so that homes collide. */
static uint64_t address_of(size_t key) {
    uint64_t mixed = (key + 1) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ mixed >> 31) & ~UINT64_C(511);
}

static struct run *value_of(size_t key) {
    static struct run values[KEYS];
    values[key].address = address_of(key);
    return &values[key];
}

static void check(const struct table *table, const bool *inside) {
    for (size_t key = 0; key < KEYS; key++)
        assert_ptr_equal(table_find(table, address_of(key)), inside[key] ? value_of(key) : NULL);
}

/* Half full, so that there are chains of several runs. */
static void the_hash_knows_what_is_in_it(void **state) {
    struct table table = {0};
    bool inside[KEYS] = {false};
    size_t count = 0;
    (void)state;
    assert_null(table_find(&table, address_of(0)));
    srand((unsigned)unit_seed(1));
    for (int step = 0; step < 20000; step++) {
        size_t key = (size_t)rand() % KEYS;
        assert_true(table_reserve(&table, 1));
        if (inside[key])
            table_erase(&table, value_of(key));
        else if (rand() % 8)
            table_insert(&table, value_of(key));
        else
            continue;
        inside[key] = !inside[key];
        count = inside[key] ? count + 1 : count - 1;
        assert_int_equal(table.count, count);
        check(&table, inside);
    }
    table_release(&table);
}

static void growing_loses_nothing(void **state) {
    static struct run runs[100000];
    struct table table = {0};
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        runs[i].address = i << 21;
        assert_true(table_reserve(&table, 1));
        table_insert(&table, &runs[i]);
        assert_true(table.count <= table.capacity);
    }
    for (uint64_t i = 0; i < 100000; i++)
        assert_ptr_equal(table_find(&table, i << 21), &runs[i]);
    assert_null(table_find(&table, UINT64_C(100000) << 21));
    table_release(&table);
    assert_null(table_find(&table, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promised_node_is_there_and_its_own),
        cmocka_unit_test(nodes_given_back_are_used_again),
        cmocka_unit_test(the_hash_knows_what_is_in_it),
        cmocka_unit_test(growing_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
