/* test_book.c: whose a handle is as long as it is referenced or mapped, whatever the driver says
 * and other threads map meanwhile. */
#include "unit.h"

#include "vm/book.h"
#include "vramgc_format.h"

enum { HANDLE = 7, OTHER = 8 };
#define PLACE   ((uint64_t)1 << 40)
#define VIRTUAL (VHANDLE_TAG << 48 | 5)

static int begin(void **state) {
    (void)state;
    for (unsigned device = 0; device < 2; device++)
        book_reset(device);
    book_range_take(PLACE);
    return 0;
}

static void make(uint64_t handle) {
    assert_true(book_add(&(struct book_handle){
        .handle = handle, .bytes = 2 * PAGE_BYTES, .device = 1, .flags = BOOK_ALLOCATOR}));
}

static bool map(uint64_t address, uint64_t handle) {
    struct book_handle learnt;
    return book_map(address, 2 * PAGE_BYTES, handle, &learnt) && !learnt.bytes;
}

static uint64_t unmap(uint64_t address, uint64_t bytes, struct book_handle *gone) {
    struct book_unmapping unmapping = book_unmap_begin(address, bytes);
    uint64_t handle = 0;
    for (uint64_t i = 0; i < unmapping.count; i++)
        handle = book_unmapped(unmapping.first + i, gone);
    return handle;
}

static void goes_with_the_last_reference(void **state) {
    (void)state;
    struct book_handle known;
    make(HANDLE);
    assert_true(book_retain(HANDLE, 0));
    assert_false(book_release_begin(HANDLE).gone);
    struct book_release release = book_release_begin(HANDLE);
    assert_true(release.known && release.gone && !book_find(HANDLE, &known));
    assert_int_equal(release.of.bytes, 2 * PAGE_BYTES);
    assert_false(book_release_begin(HANDLE).known);
    assert_true(book_release_abort(&release) && book_find(HANDLE, &known));
    assert_int_equal(known.references, 1);
    assert_int_equal(known.device, 1);
}

static void lives_on_where_it_is_mapped(void **state) {
    (void)state;
    struct book_handle gone, known;
    make(HANDLE);
    assert_true(map(PLACE, HANDLE));
    struct book_release release = book_release_begin(HANDLE);
    assert_true(release.orphan && !release.gone && !book_find(HANDLE, &known));
    make(HANDLE); /* the driver gives the number out again */
    assert_int_equal(unmap(PLACE, 2 * PAGE_BYTES, &gone), release.orphan);
    assert_int_equal(gone.handle, release.orphan);
    assert_true(book_find(HANDLE, &known) && !known.mappings);
}

static void an_orphan_is_had_again_by_its_address(void **state) {
    (void)state;
    struct book_handle known;
    make(HANDLE);
    assert_true(map(PLACE, HANDLE));
    book_release_begin(HANDLE);
    assert_true(book_retain(OTHER, PLACE + PAGE_BYTES));
    assert_true(book_find(OTHER, &known));
    assert_true(known.references == 1 && known.mappings == 1);
    assert_false(book_retain(HANDLE, PLACE - 1));
}

static void a_refused_release_is_put_back(void **state) {
    (void)state;
    struct book_handle known;
    make(HANDLE);
    assert_true(map(PLACE, HANDLE));
    struct book_release release = book_release_begin(HANDLE);
    assert_true(book_release_abort(&release) && book_find(HANDLE, &known));
    assert_true(known.references == 1 && known.mappings == 1);
}

static void a_virtual_one_keeps_its_number(void **state) {
    (void)state;
    struct book_handle gone, known;
    struct book_mapping mapping;
    make(VIRTUAL);
    assert_true(map(PLACE, VIRTUAL));
    struct book_release release = book_release_begin(VIRTUAL);
    assert_true(release.known && !release.gone && !release.orphan);
    assert_true(book_find(VIRTUAL, &known) && !known.references);
    assert_true(book_mapping_at(PLACE + 3 * PAGE_BYTES / 2, &mapping));
    assert_true(mapping.address == PLACE && mapping.handle == VIRTUAL && mapping.device == 1);
    assert_true(book_is_row(PLACE, 2 * PAGE_BYTES, 1) && !book_is_row(PLACE, PAGE_BYTES, 1));
    unmap(PLACE, 2 * PAGE_BYTES, &gone);
    assert_int_equal(gone.handle, VIRTUAL);
    assert_false(book_mapping_at(PLACE, &mapping));
}

/* Between the call and its end another thread has the same addresses. */
static void what_leaves_is_not_what_comes(void **state) {
    (void)state;
    struct book_handle gone, known;
    make(HANDLE);
    make(OTHER);
    assert_true(map(PLACE, HANDLE));
    struct book_unmapping unmapping = book_unmap_begin(PLACE, 2 * PAGE_BYTES);
    assert_int_equal(unmapping.count, 1);
    assert_true(map(PLACE, OTHER));
    assert_true(book_find(HANDLE, &known) && known.mappings == 1);
    assert_int_equal(book_unmapped(unmapping.first, &gone), HANDLE);
    assert_true(!gone.handle && book_find(OTHER, &known) && known.mappings == 1);
}

static void a_refused_unmap_is_put_back(void **state) {
    (void)state;
    struct book_handle gone;
    make(HANDLE);
    make(OTHER);
    assert_true(map(PLACE, HANDLE) && map(PLACE + 2 * PAGE_BYTES, OTHER));
    struct book_unmapping unmapping = book_unmap_begin(PLACE, 4 * PAGE_BYTES);
    assert_int_equal(unmapping.count, 2);
    assert_int_equal(book_unmap_begin(PLACE, PAGE_BYTES).count, 0);
    book_unmap_abort(&unmapping);
    assert_int_equal(unmap(PLACE + 2 * PAGE_BYTES, PAGE_BYTES, &gone), OTHER);
}

static void imported_memory_is_learnt_when_it_is_mapped(void **state) {
    (void)state;
    struct book_handle learnt;
    assert_true(book_add(&(struct book_handle){.handle = HANDLE, .flags = BOOK_IMPORTED}));
    assert_true(book_map(PLACE, PAGE_BYTES, HANDLE, &learnt));
    assert_true(learnt.handle == HANDLE && learnt.bytes == PAGE_BYTES);
    assert_true(book_map(2 * PLACE, PAGE_BYTES, HANDLE, &learnt) && !learnt.bytes);
}

static void only_others_memory_is_lent(void **state) {
    (void)state;
    unsigned library = 0;
    make(HANDLE);
    assert_true(book_add(&(struct book_handle){
        .handle = OTHER, .bytes = PAGE_BYTES, .flags = 3 << BOOK_LIBRARY_SHIFT | BOOK_FOR_STEP}));
    assert_true(map(PLACE, HANDLE) && map(2 * PLACE, OTHER));
    assert_int_equal(book_lent(PLACE, &library), 0);
    assert_int_equal(book_lent(2 * PLACE, &library), BOOK_LENT | BOOK_FRESH | BOOK_FOR_STEP);
    assert_int_equal(library, 3);
    assert_int_equal(book_lent(2 * PLACE, &library), BOOK_LENT | BOOK_FOR_STEP);
}

static void a_virtual_handle_knows_its_place(void **state) {
    (void)state;
    const uint64_t virtual = VHANDLE_TAG << 48 | 7;
    make(virtual);
    assert_int_equal(book_address_of(virtual), 0);
    assert_true(map(PLACE, virtual));
    assert_int_equal(book_address_of(virtual), PLACE);
}

static void a_range_is_one_engines(void **state) {
    (void)state;
    struct book_range range = {PLACE, 8 * PAGE_BYTES, 0, VRAMGC_MAX_DEVICES}, all;
    assert_true(book_range_put(&range));
    assert_true(book_range_largest_bytes() >= 8 * PAGE_BYTES);
    assert_false(book_range_claim(PLACE + 7 * PAGE_BYTES, 2 * PAGE_BYTES, 1, &all));
    assert_true(book_range_claim(PLACE + PAGE_BYTES, PAGE_BYTES, 1, &all));
    assert_true(all.address == PLACE && all.bytes == 8 * PAGE_BYTES && all.engine == 1);
    assert_false(book_range_claim(PLACE, PAGE_BYTES, 0, &all));
    assert_true(book_range_claim(PLACE, PAGE_BYTES, 1, &all));
    book_reset(1);
    range = book_range_take(PLACE);
    assert_true(range.bytes && range.engine == VRAMGC_MAX_DEVICES);
    assert_false(book_range_take(PLACE).bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(goes_with_the_last_reference, begin),
        cmocka_unit_test_setup(lives_on_where_it_is_mapped, begin),
        cmocka_unit_test_setup(an_orphan_is_had_again_by_its_address, begin),
        cmocka_unit_test_setup(a_refused_release_is_put_back, begin),
        cmocka_unit_test_setup(a_virtual_one_keeps_its_number, begin),
        cmocka_unit_test_setup(what_leaves_is_not_what_comes, begin),
        cmocka_unit_test_setup(a_refused_unmap_is_put_back, begin),
        cmocka_unit_test_setup(imported_memory_is_learnt_when_it_is_mapped, begin),
        cmocka_unit_test_setup(only_others_memory_is_lent, begin),
        cmocka_unit_test_setup(a_virtual_handle_knows_its_place, begin),
        cmocka_unit_test_setup(a_range_is_one_engines, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
