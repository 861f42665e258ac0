/* test_tags.c: what a caller writes onto a block stays there as long as the block, and no longer.
 */
#include "unit.h"

#include "heap/heap.h"

#define BASE UINT64_C(0x7f0000000000)

static void a_tag_stays_with_its_block(void **state) {
    (void)state;
    struct heap *heap = heap_create();
    struct heap_block block = {0};
    assert_true(heap_segment_add(heap, BASE, 20 * MIB, 0));
    assert_false(heap_set_tag(heap, BASE, 7)); /* free */
    assert_true(heap_allocate(heap, BASE, 4 * MIB));
    assert_true(heap_allocate(heap, BASE + 4 * MIB, 4 * MIB));
    assert_true(heap_set_tag(heap, BASE, 7));
    assert_false(heap_set_tag(heap, BASE + MIB, 8)); /* nothing begins there */
    assert_true(heap_is_valid(heap));

    assert_true(heap_free(heap, BASE, &block));
    assert_int_equal(block.tag, 7);
    assert_int_equal(block.bytes, 4 * MIB);
    assert_true(heap_free(heap, BASE + 4 * MIB, &block));
    assert_int_equal(block.tag, 0);
    assert_true(heap_is_valid(heap));
    assert_true(heap_allocate(heap, BASE, 2 * MIB)); /* another block, which is nobody's */
    assert_true(heap_free(heap, BASE, &block));
    assert_int_equal(block.tag, 0);

    assert_true(heap_allocate(heap, BASE, 2 * MIB));
    assert_true(heap_set_tag(heap, BASE, 9));
    assert_true(heap_pend(heap, BASE, &block));
    assert_int_equal(block.tag, 9);
    assert_false(heap_set_tag(heap, BASE, 9));
    assert_true(heap_complete(heap, BASE));
    assert_true(heap_is_valid(heap));
    heap_destroy(heap);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_stays_with_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
