/* test_ledger.c: the table of addresses against a plain array, with keys that collide, gaps that
 * are closed, growth, and no memory. */
#include "unit.h"

#include "base/hashmap.h"

#include <string.h>
#include <sys/mman.h>

static bool no_memory;

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return no_memory ? MAP_FAILED : __real_mmap(address, bytes, protection, flags, fd, offset);
}

static struct hashmap_entry entry(uint64_t key, uint64_t bytes) {
    return (struct hashmap_entry){.key = key, .bytes = bytes};
}

static void puts_and_takes(void **state) {
    struct hashmap hashmap = {0};
    struct hashmap_entry taken, first = {42, 7, 8, 13, 9, 10, 11};
    bool replaced = true;
    (void)state;
    assert_null(hashmap_find(&hashmap, 42));
    assert_false(hashmap_take(&hashmap, 42, &taken));
    assert_true(hashmap_put(&hashmap, &first, &replaced));
    assert_false(replaced);
    assert_memory_equal(hashmap_find(&hashmap, 42), &first, sizeof first);
    first.bytes = 100;
    assert_true(hashmap_put(&hashmap, &first, &replaced));
    assert_true(replaced);
    assert_int_equal(hashmap.count, 1);
    assert_true(hashmap_take(&hashmap, 42, &taken));
    assert_memory_equal(&taken, &first, sizeof first);
    assert_false(hashmap_take(&hashmap, 42, NULL));
    assert_int_equal(hashmap.count, 0);
}

static void zero_is_no_key(void **state) {
    struct hashmap hashmap = {0};
    struct hashmap_entry none = entry(0, 1), some = entry(1, 1);
    (void)state;
    assert_false(hashmap_put(&hashmap, &none, NULL));
    assert_null(hashmap_find(&hashmap, 0));
    assert_true(hashmap_put(&hashmap, &some, NULL));
    assert_null(hashmap_find(&hashmap, 0));
    assert_false(hashmap_take(&hashmap, 0, NULL));
}

static void without_memory(void **state) {
    struct hashmap hashmap = {0};
    struct hashmap_entry some = entry(1, 1);
    (void)state;
    no_memory = true;
    assert_false(hashmap_put(&hashmap, &some, NULL));
    no_memory = false;
    uint64_t key = 1;
    for (; key <= 512; key++) {
        some = entry(key, key);
        assert_true(hashmap_put(&hashmap, &some, NULL));
    }
    no_memory = true;
    some = entry(key, key);
    while (hashmap_put(&hashmap, &some, NULL)) {
        key++;
        some = entry(key, key);
    }
    no_memory = false;
    assert_true(key <= hashmap.capacity);
    for (uint64_t i = 1; i < key; i++)
        assert_int_equal(hashmap_find(&hashmap, i)->bytes, i); /* nothing was lost */
    assert_null(hashmap_find(&hashmap, key));
    assert_true(hashmap_put(&hashmap, &some, NULL));
}

/* The twin: bytes by key, 0 for unknown. Keys are as addresses are: far apart, equal at the end. */
enum { KEYS = 6000 };
static uint64_t twin[KEYS];

static uint64_t key_of(unsigned i) {
    return UINT64_C(0x7f0000000000) + (uint64_t)i * (i % 3 ? 2 * MIB : 512);
}

static uint32_t random_state;

static uint32_t next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 4;
}

static size_t compare(const struct hashmap *hashmap) {
    size_t count = 0;
    for (unsigned i = 1; i < KEYS; i++) {
        const struct hashmap_entry *found = hashmap_find(hashmap, key_of(i));
        if (twin[i] ? !found || found->bytes != twin[i] : found != NULL)
            fail_msg("key %u: %s", i, twin[i] ? "lost or wrong" : "still there");
        count += twin[i] != 0;
    }
    assert_int_equal(hashmap->count, count);
    return count;
}

static bool is_odd(const struct hashmap_entry *entry, void *context) {
    (*(size_t *)context)++;
    return entry->bytes & 1;
}

static void random_operations(void **state) {
    struct hashmap hashmap = {0};
    (void)state;
    random_state = (uint32_t)unit_seed(12345);
    for (unsigned step = 0; step < 400000; step++) {
        unsigned i = 1 + next_random() % (step < 200000 ? KEYS - 1 : 300);
        if (next_random() % 2) {
            struct hashmap_entry new = entry(key_of(i), 1 + next_random());
            bool replaced;
            assert_true(hashmap_put(&hashmap, &new, &replaced));
            assert_int_equal(replaced, twin[i] != 0);
            twin[i] = new.bytes;
        } else {
            struct hashmap_entry taken;
            assert_int_equal(hashmap_take(&hashmap, key_of(i), &taken), twin[i] != 0);
            assert_true(!twin[i] || taken.bytes == twin[i]);
            twin[i] = 0;
        }
        if (step % 40000 == 0)
            compare(&hashmap);
    }
    compare(&hashmap);
    size_t asked = 0;
    hashmap_sweep(&hashmap, is_odd, &asked);
    for (unsigned i = 1; i < KEYS; i++)
        if (twin[i] & 1)
            twin[i] = 0;
    assert_true(compare(&hashmap) > 100);
    assert_true(asked >= hashmap.count);
}

/* Books that are lent are there at once, and never unmapped: here they are no pages of their own.
 */
static void lent_books(void **state) {
    static struct hashmap_entry lent[64];
    struct hashmap hashmap = HASHMAP_IN(lent);
    (void)state;
    no_memory = true;
    for (unsigned i = 1; i <= 56; i++) {
        struct hashmap_entry one = entry(key_of(i), i);
        assert_true(hashmap_put(&hashmap, &one, NULL));
    }
    struct hashmap_entry more = entry(key_of(100), 100);
    assert_false(hashmap_put(&hashmap, &more, NULL));
    no_memory = false;
    assert_true(hashmap_put(&hashmap, &more, NULL));
    for (unsigned i = 1; i <= 56; i++)
        assert_int_equal(hashmap_find(&hashmap, key_of(i))->bytes, i);
    assert_int_equal(hashmap.count, 57);
    assert_int_not_equal(lent[0].key | lent[1].key | lent[2].key, 0);
}

/* Removals that wrap around the end of the table. */
static void gaps_at_the_end(void **state) {
    struct hashmap hashmap = {0};
    uint64_t keys[200], found = 0;
    (void)state;
    struct hashmap_entry one = entry(1, 1);
    assert_true(hashmap_put(&hashmap, &one, NULL));
    hashmap_take(&hashmap, 1, NULL);
    for (uint64_t key = 1; found < 200; key++) {
        size_t home = (size_t)((key * 0x9E3779B97F4A7C15u) >> 20) & (hashmap.capacity - 1);
        if (home >= hashmap.capacity - 20)
            keys[found++] = key;
    }
    for (unsigned i = 0; i < 200; i++) {
        one = entry(keys[i], i + 1);
        assert_true(hashmap_put(&hashmap, &one, NULL));
    }
    for (unsigned i = 0; i < 200; i += 2)
        assert_true(hashmap_take(&hashmap, keys[i], NULL));
    for (unsigned i = 0; i < 200; i++) {
        const struct hashmap_entry *e = hashmap_find(&hashmap, keys[i]);
        assert_true(i % 2 ? e && e->bytes == i + 1 : !e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_and_takes), cmocka_unit_test(zero_is_no_key),
        cmocka_unit_test(without_memory), cmocka_unit_test(random_operations),
        cmocka_unit_test(lent_books),     cmocka_unit_test(gaps_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
