/* test_lock.c: the lock of the hot path: one at a time inside, nobody sleeps for ever, and a forked
 * child can open it. */
#include "unit.h"

#include "base/lock.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 100000, LONG_TURNS = 20 };

static struct {
    struct lock lock;
    unsigned long long count;
    bool inside;
    atomic_int collisions;
} shared;

static void take_a_turn(useconds_t long_us) {
    lock_take(&shared.lock);
    if (shared.inside)
        atomic_fetch_add(&shared.collisions, 1);
    shared.inside = true;
    shared.count++;
    if (long_us > 0)
        usleep(long_us);
    shared.inside = false;
    lock_give(&shared.lock);
}

static void *take_short_turns(void *context) {
    (void)context;
    for (int i = 0; i < TURNS; i++)
        take_a_turn(0);
    return NULL;
}

/* Long enough for the others to fall asleep. */
static void *take_long_turns(void *context) {
    (void)context;
    for (int i = 0; i < LONG_TURNS; i++)
        take_a_turn(2000);
    return NULL;
}

static void run_threads(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void one_at_a_time(void **state) {
    (void)state;
    shared.count = 0;
    run_threads(take_short_turns);
    assert_int_equal(shared.count, THREADS * TURNS);
    assert_int_equal(atomic_load(&shared.collisions), 0);
}

static void sleepers_wake(void **state) {
    (void)state;
    shared.count = 0;
    alarm(60); /* a sleeper that nobody wakes ends the test */
    run_threads(take_long_turns);
    alarm(0);
    assert_int_equal(shared.count, THREADS * LONG_TURNS);
    assert_int_equal(atomic_load(&shared.collisions), 0);
    assert_int_equal(atomic_load(&shared.lock.sleepers), 0);
}

static void a_child_can_open_it(void **state) {
    struct lock lock = {.held = 1, .sleepers = 3};
    (void)state;
    lock_force_open(&lock);
    assert_int_equal(atomic_load(&lock.sleepers), 0);
    lock_take(&lock);
    lock_give(&lock);
    assert_int_equal(atomic_load(&lock.held), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(a_child_can_open_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
