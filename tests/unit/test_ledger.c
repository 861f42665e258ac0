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

static struct ledger_entry entry(uint64_t key, uint64_t bytes) {
    return (struct ledger_entry){.key = key, .bytes = bytes};
}

static void puts_and_takes(void **state) {
    struct ledger ledger = {0};
    struct ledger_entry taken, first = {42, 7, 8, 13, 9, 10, 11};
    bool replaced = true;
    (void)state;
    assert_null(ledger_find(&ledger, 42));
    assert_false(ledger_take(&ledger, 42, &taken));
    assert_true(ledger_put(&ledger, &first, &replaced));
    assert_false(replaced);
    assert_memory_equal(ledger_find(&ledger, 42), &first, sizeof first);
    first.bytes = 100;
    assert_true(ledger_put(&ledger, &first, &replaced));
    assert_true(replaced);
    assert_int_equal(ledger.count, 1);
    assert_true(ledger_take(&ledger, 42, &taken));
    assert_memory_equal(&taken, &first, sizeof first);
    assert_false(ledger_take(&ledger, 42, NULL));
    assert_int_equal(ledger.count, 0);
}

static void zero_is_no_key(void **state) {
    struct ledger ledger = {0};
    struct ledger_entry none = entry(0, 1), some = entry(1, 1);
    (void)state;
    assert_false(ledger_put(&ledger, &none, NULL));
    assert_null(ledger_find(&ledger, 0));
    assert_true(ledger_put(&ledger, &some, NULL));
    assert_null(ledger_find(&ledger, 0));
    assert_false(ledger_take(&ledger, 0, NULL));
}

static void without_memory(void **state) {
    struct ledger ledger = {0};
    struct ledger_entry some = entry(1, 1);
    (void)state;
    no_memory = true;
    assert_false(ledger_put(&ledger, &some, NULL));
    no_memory = false;
    uint64_t key = 1;
    for (; key <= 512; key++) {
        some = entry(key, key);
        assert_true(ledger_put(&ledger, &some, NULL));
    }
    no_memory = true;
    some = entry(key, key);
    while (ledger_put(&ledger, &some, NULL)) {
        key++;
        some = entry(key, key);
    }
    no_memory = false;
    assert_true(key <= ledger.capacity);
    for (uint64_t i = 1; i < key; i++)
        assert_int_equal(ledger_find(&ledger, i)->bytes, i); /* nothing was lost */
    assert_null(ledger_find(&ledger, key));
    assert_true(ledger_put(&ledger, &some, NULL));
}

/* The twin: bytes by key, 0 for unknown. Keys are as addresses are: far apart, equal at the end. */
enum { KEYS = 6000 };
static uint64_t twin[KEYS];

static uint64_t key_of(unsigned i) {
    return UINT64_C(0x7f0000000000) + (uint64_t)i * (i % 3 ? 2 * MIB : 512);
}

static uint32_t next_random(void) {
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return state >> 4;
}

static size_t compare(const struct ledger *ledger) {
    size_t count = 0;
    for (unsigned i = 1; i < KEYS; i++) {
        const struct ledger_entry *found = ledger_find(ledger, key_of(i));
        if (twin[i] ? !found || found->bytes != twin[i] : found != NULL)
            fail_msg("key %u: %s", i, twin[i] ? "lost or wrong" : "still there");
        count += twin[i] != 0;
    }
    assert_int_equal(ledger->count, count);
    return count;
}

static bool is_odd(const struct ledger_entry *entry, void *context) {
    (*(size_t *)context)++;
    return entry->bytes & 1;
}

static void random_operations(void **state) {
    struct ledger ledger = {0};
    (void)state;
    for (unsigned step = 0; step < 400000; step++) {
        unsigned i = 1 + next_random() % (step < 200000 ? KEYS - 1 : 300);
        if (next_random() % 2) {
            struct ledger_entry new = entry(key_of(i), 1 + next_random());
            bool replaced;
            assert_true(ledger_put(&ledger, &new, &replaced));
            assert_int_equal(replaced, twin[i] != 0);
            twin[i] = new.bytes;
        } else {
            struct ledger_entry taken;
            assert_int_equal(ledger_take(&ledger, key_of(i), &taken), twin[i] != 0);
            assert_true(!twin[i] || taken.bytes == twin[i]);
            twin[i] = 0;
        }
        if (step % 40000 == 0)
            compare(&ledger);
    }
    compare(&ledger);
    size_t asked = 0;
    ledger_sweep(&ledger, is_odd, &asked);
    for (unsigned i = 1; i < KEYS; i++)
        if (twin[i] & 1)
            twin[i] = 0;
    assert_true(compare(&ledger) > 100);
    assert_true(asked >= ledger.count);
}

/* Removals that wrap around the end of the table. */
static void gaps_at_the_end(void **state) {
    struct ledger ledger = {0};
    uint64_t keys[200], found = 0;
    (void)state;
    struct ledger_entry one = entry(1, 1);
    assert_true(ledger_put(&ledger, &one, NULL));
    ledger_take(&ledger, 1, NULL);
    for (uint64_t key = 1; found < 200; key++) {
        size_t home = (size_t)((key * 0x9E3779B97F4A7C15u) >> 20) & (ledger.capacity - 1);
        if (home >= ledger.capacity - 20)
            keys[found++] = key;
    }
    for (unsigned i = 0; i < 200; i++) {
        one = entry(keys[i], i + 1);
        assert_true(ledger_put(&ledger, &one, NULL));
    }
    for (unsigned i = 0; i < 200; i += 2)
        assert_true(ledger_take(&ledger, keys[i], NULL));
    for (unsigned i = 0; i < 200; i++) {
        const struct ledger_entry *e = ledger_find(&ledger, keys[i]);
        assert_true(i % 2 ? e && e->bytes == i + 1 : !e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_and_takes),  cmocka_unit_test(zero_is_no_key),
        cmocka_unit_test(without_memory),  cmocka_unit_test(random_operations),
        cmocka_unit_test(gaps_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
