/* test_recording.c: what is read of a record of blocks is in order, wherever it is cut and whatever
 * stands in it: each block is taken before it is given back, once. */
#include "unit.h"

#include "read/block_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 40, MANY = 10000000 };

static char path[] = "/tmp/vramgc-recording-XXXXXX";
static struct vramgc_file file = {.pid = 7, .started_ns = 9};
static struct stats_file record = {.path = path, .file = &file};
static char beside[sizeof path + 8];

static uint64_t block(enum vramgc_word kind, uint64_t stream, uint64_t number) {
    return kind | stream << 2 | 8 << 4 | (number + 1) << 32;
}

static uint64_t note(enum vramgc_note kind, uint64_t value) {
    return (uint64_t)kind << 2 | value << 8;
}

static void write_record(const struct vramgc_recording *head, const uint64_t *words, size_t count) {
    FILE *stream = fopen(beside, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(head, sizeof *head, 1, stream), 1);
    assert_int_equal(fseek(stream, VRAMGC_RECORDING_HEAD, SEEK_SET), 0);
    assert_int_equal(fwrite(words, sizeof *words, count, stream), count);
    fclose(stream);
}

static struct vramgc_recording head_of(uint64_t half_words) {
    struct vramgc_recording head = {.magic = VRAMGC_RECORDING_MAGIC,
                                    .head_bytes = sizeof head,
                                    .pid = 7,
                                    .started_ns = 9,
                                    .half_words = half_words};
    head.halves[0] = (struct vramgc_recording_half){.turn = 1, .written = half_words};
    return head;
}

/* What each block is at: 0: not taken. */
static void check_order(const struct recording *recording) {
    char *taken = calloc(recording->count + 1, 1);
    assert_non_null(taken);
    for (size_t i = 0; i < recording->count; i++) {
        const struct replay_step *step = &recording->steps[i];
        if (step->value > 0)
            assert_int_equal(taken[step->of]++, 0);
        else if (step->value == REPLAY_FREE)
            assert_int_equal(taken[step->of]--, 1);
        else if (step->value == REPLAY_FREE_LATE)
            assert_int_equal(taken[step->of], 1);
    }
    free(taken);
}

/* Each kind of word. */
static size_t fill(uint64_t *words) {
    size_t n = 0;
    for (uint64_t i = 0; i < 5; i++) {
        words[n++] = note(VRAMGC_NOTE_STREAM, 60000 + i);
        words[n++] = block(VRAMGC_WORD_ALLOC, i % 2 ? 3 : i % 3, i);
        words[n++] = note(VRAMGC_NOTE_POOL, i % 3);
        words[n++] = block(VRAMGC_WORD_FREE, i % 2, i);
        words[n++] = note(VRAMGC_NOTE_COMPLETED, (i + 1) << 24);
    }
    words[n++] = note(VRAMGC_NOTE_KEEP, 1ull << 40);
    words[n++] = note(VRAMGC_NOTE_LEFT, 1ull << 40);
    words[n++] = note(VRAMGC_NOTE_WANTED, 1 << 20);
    words[n++] = note(VRAMGC_NOTE_EMPTIED, 0);
    words[n++] = note(VRAMGC_NOTE_JOB, 1);
    words[n++] = 0;
    for (; n < WORDS; n++)
        words[n] = note(63, n); /* of a later version */
    return n;
}

static void test_cut_at_every_byte(void **state) {
    (void)state;
    uint64_t words[WORDS];
    struct vramgc_recording head = head_of(WORDS);
    size_t events = 0;
    write_record(&head, words, fill(words));
    for (off_t cut = VRAMGC_RECORDING_HEAD + WORDS * 8; cut >= 0; cut--) {
        struct recording recording;
        char error[200] = "";
        assert_int_equal(truncate(beside, cut), 0);
        bool fine = recording_load(&record, &recording, error, sizeof error);
        assert_true(fine == (*error == 0));
        assert_true(fine == (cut >= VRAMGC_RECORDING_HEAD + 16)); /* the first block is whole */
        if (!fine)
            continue;
        assert_true(events == 0 || recording.events <= events);
        events = recording.events;
        check_order(&recording);
        recording_free(&recording);
    }
    assert_int_equal(events, 1);
}

static bool has_step(const struct recording *recording, int64_t value, int64_t of) {
    for (size_t i = 0; i < recording->count; i++)
        if (recording->steps[i].value == value && recording->steps[i].of == of)
            return true;
    return false;
}

static void test_streams_and_pools(void **state) {
    (void)state;
    uint64_t words[WORDS];
    struct vramgc_recording head = head_of(WORDS);
    struct recording recording;
    char error[200];
    head.fraction = 0.25;
    write_record(&head, words, fill(words));
    assert_true(recording_load(&record, &recording, error, sizeof error));
    assert_int_equal(recording.events, 10);
    assert_true(has_step(&recording, REPLAY_STREAM, 60001));
    assert_true(has_step(&recording, -VRAMGC_NOTE_POOL, 2));
    assert_true(has_step(&recording, -VRAMGC_NOTE_KEEP, 1ll << 40));
    assert_true(has_step(&recording, -VRAMGC_NOTE_LEFT, 1ll << 40));
    assert_true(recording.fraction == 0.25);
    check_order(&recording); /* a word that is 0 gives nothing back */
    recording_free(&recording);
    for (size_t i = 0; i < 3; i++) {
        head.fraction = (const double[]){-1, 1, 0.0 / 0.0}[i];
        write_record(&head, words, fill(words));
        assert_true(recording_load(&record, &recording, error, sizeof error));
        assert_true(recording.fraction == 0);
        recording_free(&recording);
    }
}

static void expect_trouble(const struct vramgc_recording *head, const char *trouble) {
    uint64_t words[WORDS];
    struct recording recording;
    char error[200] = "";
    write_record(head, words, fill(words));
    assert_false(recording_load(&record, &recording, error, sizeof error));
    assert_non_null(strstr(error, trouble));
}

static void test_not_of_this(void **state) {
    (void)state;
    struct vramgc_recording head = head_of(WORDS);
    head.head_bytes++;
    expect_trouble(&head, "another version");
    head = head_of(1ull << 60);
    expect_trouble(&head, "another version");
    head = head_of(0);
    expect_trouble(&head, "another version");
    head = head_of(WORDS);
    head.pid = 8;
    expect_trouble(&head, "another run");
    head = head_of(WORDS);
    head.magic[0] = 0;
    expect_trouble(&head, "no record of blocks");
}

static void test_ten_million_events(void **state) {
    (void)state;
    uint64_t *words = calloc(MANY, sizeof *words);
    struct vramgc_recording head = head_of(MANY);
    struct recording recording;
    char error[200];
    assert_non_null(words);
    for (uint64_t i = 0; i < MANY; i++)
        words[i] = block(i % 2 ? VRAMGC_WORD_FREE : VRAMGC_WORD_ALLOC, 0, i / 2 % 1000);
    write_record(&head, words, MANY);
    free(words);
    assert_true(recording_load(&record, &recording, error, sizeof error));
    assert_int_equal(recording.events, MANY);
    assert_int_equal(recording.count, MANY + 1);
    recording_free(&recording);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_streams_and_pools),
        cmocka_unit_test(test_not_of_this),
        cmocka_unit_test(test_ten_million_events),
    };
    close(mkstemp(path));
    snprintf(beside, sizeof beside, "%s.blocks", path);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(beside);
    unlink(path);
    return failed;
}
