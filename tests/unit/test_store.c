/* test_store.c: the statistics file by itself: what was counted before it is open is in it,
 * rings keep their rule, gauges never fall below zero, and copies are complete. */
#include "unit.h"

#include "base/ring.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/test_store.XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    static const char *const names[] = {"taken", "taken.1", "saved"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    return rmdir(folder);
}

static struct vramgc_file loaded;

static const struct vramgc_file *load(const char *path) {
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, &loaded, sizeof loaded);
    close(fd);
    assert_int_equal(n, sizeof loaded);
    return &loaded;
}

static void opened(void **state) {
    struct stat status;
    (void)state;
    close(open("taken", O_WRONLY | O_CREAT | O_EXCL, 0600));
    figure_add(&store_file()->hooks[3].calls, 7);
    figure_add(&store_file()->asking, 1); /* its end is counted where it began */
    store_mark("early");
    assert_string_equal(store_path(), "");
    assert_true(store_open("taken"));
    assert_string_equal(store_path(), "taken.1");
    assert_int_equal(stat("taken", &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(stat("taken.1", &status), 0);
    assert_true(status.st_blocks * 512 >= (off_t)sizeof loaded); /* allotted: no SIGBUS later */
    assert_int_equal(load("taken.1")->hooks[3].calls, 7);
    assert_string_equal(loaded.marks[0].label, "early");
    assert_int_equal(loaded.asking, 0);
    figure_add(&store_file()->hooks[3].calls, 1);
    assert_int_equal(load("taken.1")->hooks[3].calls, 8); /* at once, without a word */
}

static void no_file_by_wish(void **state) {
    (void)state;
    assert_false(store_open(""));
}

static void gauges(void **state) {
    struct vramgc_gauge gauge = {0};
    (void)state;
    gauge_add(&gauge, 10);
    gauge_add(&gauge, 5);
    gauge_subtract(&gauge, 12);
    assert_int_equal(gauge.current, 3);
    assert_int_equal(gauge.peak, 15);
    gauge_subtract(&gauge, 4);
    assert_int_equal(gauge.current, 0);
    gauge_set(&gauge, 20);
    gauge_set(&gauge, 1);
    assert_int_equal(gauge.current, 1);
    assert_int_equal(gauge.peak, 20);
}

static void *pump(void *gauge) {
    for (int i = 0; i < 100000; i++) {
        gauge_add(gauge, 3);
        gauge_subtract(gauge, 2);
    }
    return NULL;
}

static void gauges_of_many(void **state) {
    static struct vramgc_gauge gauge;
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, pump, &gauge);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(gauge.current, 400000);
    assert_true(gauge.peak >= 400001 && gauge.peak <= 400012);
}

static void *bring_up(void *index) {
    store_device((unsigned)(uintptr_t)index);
    return NULL;
}

static void devices(void **state) {
    pthread_t threads[8];
    (void)state;
    for (uintptr_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, bring_up, (void *)(i * 2 % 8 + i / 4));
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(store_file()->device_count, 8);
    store_device(2);
    assert_int_equal(store_file()->device_count, 8);
    for (int i = 0; i < 16; i++)
        assert_int_equal(store_file()->devices[i].present, i < 8);
}

static void actions(void **state) {
    struct vramgc_file *file = store_file();
    uint64_t lost = file->process.lost_records;
    (void)state;
    for (uint64_t i = file->actions_written; i < VRAMGC_MAX_ACTIONS + 10; i++) {
        struct vramgc_action action = {.took_ns = i, .time_ns = i == 5 ? 77 : 0};
        store_action(&action);
    }
    assert_int_equal(file->actions_written, VRAMGC_MAX_ACTIONS + 10);
    assert_int_equal(file->process.lost_records, lost + 10);
    for (uint64_t i = 10; i < VRAMGC_MAX_ACTIONS + 10; i++) {
        const struct vramgc_action *slot = &file->actions[i % VRAMGC_MAX_ACTIONS];
        assert_int_equal(slot->sequence, i + 1);
        assert_int_equal(slot->took_ns, i);
        assert_true(slot->time_ns != 0);
    }
}

/* What goes on keeps its place while it is written again, and never takes another's. */
static void an_action_that_goes_on(void **state) {
    struct vramgc_action action = {.took_ns = 1, .time_ns = 5}, found, other = {.took_ns = 9};
    (void)state;
    uint64_t index = store_file()->actions_written;
    action.sequence = store_action(&action);
    assert_int_equal(action.sequence, index + 1);
    action.took_ns = 2;
    store_action_again(&action);
    assert_int_equal(store_file()->actions_written, index + 1);
    assert_true(store_action_at(index, &found));
    assert_int_equal(found.took_ns, 2);
    assert_int_equal(found.time_ns, 5);
    for (int i = 0; i < VRAMGC_MAX_ACTIONS; i++)
        store_action(&other);
    store_action_again(&action);
    assert_false(store_action_at(index, &found));
    assert_true(store_action_at(index + VRAMGC_MAX_ACTIONS, &found));
    assert_int_equal(found.took_ns, 9);
}

static void refusals(void **state) {
    struct vramgc_refusal refusal = {.request_bytes = 99, .time_ns = 5}, other = {.granted = 7};
    uint64_t before = store_file()->refusals_written;
    const struct vramgc_refusal *slot = &store_file()->refusals[before];
    (void)state;
    refusal.sequence = store_refusal(&refusal);
    assert_int_equal(slot->request_bytes, 99);
    assert_int_equal(slot->sequence, before + 1);
    refusal.granted = 1;
    store_refusal_again(&refusal);
    assert_int_equal(slot->granted, 1);
    assert_int_equal(slot->time_ns, 5);
    assert_int_equal(slot->sequence, before + 1);
    assert_int_equal(store_file()->refusals_written, before + 1);
    for (int i = 0; i < VRAMGC_MAX_REFUSALS; i++)
        store_refusal(&other);
    store_refusal_again(&refusal);
    assert_int_equal(slot->granted, 7); /* another has its place */
}

#define ROUNDS (2000u * VRAMGC_MAX_ACTIONS)

static void *write_actions(void *done) {
    uint64_t first = store_file()->actions_written;
    for (uint64_t i = first; i < first + ROUNDS; i++) {
        struct vramgc_action action = {.took_ns = i + 1, .request_bytes = i + 1};
        store_action(&action);
    }
    atomic_store((atomic_bool *)done, true);
    return NULL;
}

/* Whoever finds the same sequence before and after has seen that entry and no other. */
static void nobody_sees_half_an_entry(void **state) {
    atomic_bool done = false;
    pthread_t writer;
    (void)state;
    assert_int_equal(pthread_create(&writer, NULL, write_actions, &done), 0);
    for (size_t i = 0; !atomic_load(&done); i++) {
        const struct vramgc_action *slot = &store_file()->actions[i % VRAMGC_MAX_ACTIONS];
        uint64_t sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
        uint64_t took = figure_get(&slot->took_ns);
        uint64_t request = figure_get(&slot->request_bytes);
        atomic_thread_fence(memory_order_acquire);
        if (!sequence || sequence == VRAMGC_BEING_WRITTEN || !took ||
            __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) != sequence)
            continue;
        if (sequence <= VRAMGC_MAX_ACTIONS + 10)
            continue; /* of the tests before */
        assert_int_equal(took, sequence);
        assert_int_equal(request, sequence);
    }
    pthread_join(writer, NULL);
}

/* Two writers a whole round apart never share a slot: each entry is one writer's. */
static void *write_marked(void *mark) {
    for (uint64_t i = 0; i < ROUNDS / 4; i++) {
        struct vramgc_action action = {
            .took_ns = (uintptr_t)mark, .request_bytes = (uintptr_t)mark, .used_bytes = i};
        store_action(&action);
    }
    return NULL;
}

static void writers_never_share_an_entry(void **state) {
    pthread_t writers[4];
    struct vramgc_action action;
    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, write_marked, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(writers[i], NULL);
    uint64_t written = store_file()->actions_written, complete = 0;
    for (uint64_t i = written - VRAMGC_MAX_ACTIONS; i < written; i++) {
        if (!store_action_at(i, &action))
            continue; /* lost to another writer */
        assert_int_equal(action.took_ns, action.request_bytes);
        complete++;
    }
    assert_true(complete > VRAMGC_MAX_ACTIONS / 2);
    for (size_t i = 0; i < VRAMGC_MAX_ACTIONS; i++)
        assert_true(store_file()->actions[i].sequence != VRAMGC_BEING_WRITTEN);
}

/* An entry that comes a whole round late does not take the place of the later one. */
struct shared {
    uint64_t written, lost;
    struct vramgc_mark slots[16];
};

static void put_marks(struct shared *shared, const char *label) {
    struct ring ring = {&shared->written, shared->slots, 16, sizeof *shared->slots, &shared->lost};
    struct vramgc_mark mark = {.time_ns = 1};
    memset(mark.label, *label, sizeof mark.label - 1);
    for (int i = 0; i < 100000; i++)
        ring_put(&ring, &mark);
}

/* As `vramgc mark` beside the program's own marks. */
static void two_processes_never_share_an_entry(void **state) {
    int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS, status = -1;
    struct shared *shared = mmap(NULL, sizeof *shared, protection, flags, -1, 0);
    (void)state;
    assert_true(shared != MAP_FAILED);
    pid_t child = fork();
    put_marks(shared, child ? "a" : "b");
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(shared->written, 200000);
    assert_int_equal(shared->lost, 200000 - 16);
    for (size_t i = 0; i < 16; i++) {
        const struct vramgc_mark *mark = &shared->slots[i];
        assert_int_equal((mark->sequence - 1) % 16, i);
        assert_true(mark->sequence <= 200000);
        for (size_t j = 0; j < sizeof mark->label - 1; j++)
            assert_int_equal(mark->label[j], *mark->label);
    }
    munmap(shared, sizeof *shared);
}

static void a_late_entry_is_lost(void **state) {
    struct vramgc_file *file = store_file();
    struct vramgc_action action = {.took_ns = 1}, found;
    (void)state;
    uint64_t written = file->actions_written;
    struct vramgc_action *slot = &file->actions[written % VRAMGC_MAX_ACTIONS];
    slot->sequence = written + VRAMGC_MAX_ACTIONS + 1;
    slot->took_ns = 2;
    store_action(&action);
    assert_int_equal(slot->took_ns, 2);
    assert_false(store_action_at(written, &found));
    slot->sequence = VRAMGC_BEING_WRITTEN;
    file->actions_written = written;
    store_action(&action);
    assert_int_equal(slot->took_ns, 2);
    slot->sequence = 0;
}

static void marks(void **state) {
    char label[100];
    uint64_t index = store_file()->marks_written;
    (void)state;
    memset(label, 'm', sizeof label);
    label[sizeof label - 1] = 0;
    store_mark(label);
    assert_int_equal(strlen(store_file()->marks[index].label), 47);
}

static void settings(void **state) {
    struct options options;
    enum option_origin origins[64] = {ORIGIN_DEFAULT, ORIGIN_INVALID, ORIGIN_ENVIRONMENT};
    const struct vramgc_file *file = store_file();
    (void)state;
    options_defaults(&options);
    store_settings(&options, origins);
    assert_int_equal(file->setting_count, option_count);
    assert_true(option_count <= VRAMGC_MAX_SETTINGS);
    assert_string_equal(file->settings[0].name, "mode");
    assert_string_equal(file->settings[0].value, "auto");
    assert_string_equal(file->settings[0].origin, "default");
    assert_string_equal(file->settings[1].origin, "invalid");
    assert_string_equal(file->settings[2].origin, "environment");
}

static void saved(void **state) {
    (void)state;
    figure_set(&store_file()->pid, 4711);
    assert_true(store_save_as("saved"));
    assert_int_equal(load("saved")->pid, 4711);
    assert_memory_equal(&loaded, store_file(), sizeof loaded);
    assert_false(store_save_as("saved"));
    assert_int_equal(errno, EEXIST);
    assert_false(store_save_as("missing/saved"));
    assert_int_equal(errno, ENOENT);
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    bool done = store_save_as("too-large"); /* and no signal ended us */
    int error = errno;
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_false(done);
    assert_int_equal(error, EFBIG);
    assert_int_equal(access("too-large", F_OK), -1);
}

static void abandoned(void **state) {
    struct vramgc_file *file = store_file();
    (void)state;
    store_abandon();
    assert_ptr_not_equal(store_file(), file);
    assert_string_equal(store_path(), "");
    figure_add(&store_file()->hooks[3].calls, 100);
    assert_int_equal(load("taken.1")->hooks[3].calls, 8);
    assert_int_equal(file->hooks[3].calls, 8); /* still mapped: a late writer does no harm */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_file_by_wish),
        cmocka_unit_test(opened),
        cmocka_unit_test(gauges),
        cmocka_unit_test(gauges_of_many),
        cmocka_unit_test(devices),
        cmocka_unit_test(actions),
        cmocka_unit_test(refusals),
        cmocka_unit_test(nobody_sees_half_an_entry),
        cmocka_unit_test(writers_never_share_an_entry),
        cmocka_unit_test(two_processes_never_share_an_entry),
        cmocka_unit_test(a_late_entry_is_lost),
        cmocka_unit_test(an_action_that_goes_on),
        cmocka_unit_test(marks),
        cmocka_unit_test(settings),
        cmocka_unit_test(saved),
        cmocka_unit_test(abandoned),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
