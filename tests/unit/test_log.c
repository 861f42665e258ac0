/* test_log.c: messages: which are written, where to, how often, and never into a file that is not
 * ours. */
#include "unit.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/test_log.XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    unlink("log");
    unlink("own");
    unlink("errors");
    return rmdir(folder);
}

/* The content of a file; static. */
static const char *content(const char *path) {
    static char text[65536];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static size_t lines(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void levels(void **state) {
    (void)state;
    log_open(LOG_WARN, "log");
    LOG(LOG_INFO, "not this");
    LOG(LOG_WARN, "but %s", "this");
    LOG(LOG_ERROR, "and this");
    assert_true(log_wants(LOG_WARN) && !log_wants(LOG_INFO));
    const char *text = content("log");
    assert_int_equal(lines(text), 2);
    assert_null(strstr(text, "not this"));
    assert_non_null(strstr(text, " warn  but this\n"));
    assert_non_null(strstr(text, " error and this\n"));
    assert_memory_equal(text, "vramgc: [", 9);
    log_silence();
    LOG(LOG_ERROR, "nor this");
    assert_int_equal(lines(content("log")), 2);
}

static void of_one_kind(void **state) {
    (void)state;
    unlink("log");
    log_open(LOG_DEBUG, "log");
    for (int i = 0; i < 100; i++)
        LOG(LOG_WARN, "number %d", i);
    const char *text = content("log");
    assert_int_equal(lines(text), 32);
    assert_non_null(strstr(text, "number 31 (further messages of this kind are left out)\n"));
    for (int i = 0; i < 100; i++)
        LOG(LOG_DEBUG, "number %d", i);
    assert_int_equal(lines(content("log")), 132);
}

static void long_lines(void **state) {
    char text[5000];
    (void)state;
    unlink("log");
    log_open(LOG_WARN, "log");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    errno = 77;
    LOG(LOG_WARN, "%s", text);
    assert_int_equal(errno, 77);
    assert_int_equal(lines(content("log")), 1);
    assert_true(strlen(content("log")) < 800);
}

/* Runs with standard error in a file. */
static void to_errors(void (*run)(void)) {
    int saved = dup(STDERR_FILENO);
    int fd = open("errors", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
    log_remember_standard_error();
    run();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
}

/* As a daemon does: close what one does not know, and open files of one's own. */
static void close_and_open(void) {
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    for (int i = 0; i < 40; i++)
        assert_int_equal(write(open("own", O_RDWR | O_CREAT | O_APPEND, 0600), "x", 1), 1);
    LOG(LOG_WARN, "where to?");
}

static void a_number_given_anew(void **state) {
    (void)state;
    log_open(LOG_WARN, "log");
    to_errors(close_and_open);
    assert_int_equal(strlen(content("own")), 40);
    assert_non_null(strstr(content("errors"), "where to?"));
}

/* A daemon again: the number 2 goes to a file of data. */
static void data_as_errors(void) {
    log_remember_standard_error();
    int fd = open("own", O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    LOG(LOG_ERROR, "into the data");
}

static void another_standard_error(void **state) {
    (void)state;
    log_open(LOG_WARN, "");
    to_errors(data_as_errors);
    assert_int_equal(strlen(content("own")), 0);
    assert_int_equal(strlen(content("errors")), 0);
}

/* A path and a setting that would steer a terminal. */
static void harmless_lines(void **state) {
    (void)state;
    unlink("log");
    log_open(LOG_WARN, "log");
    LOG(LOG_WARN, "%s", "\x1b[2J \xe2\x80\xae");
    assert_non_null(strstr(content("log"), " ?[2J ?\n"));
}

static void open_nowhere(void) {
    log_open(LOG_WARN, "missing/log");
    LOG(LOG_WARN, "to standard error");
}

static void no_file(void **state) {
    (void)state;
    to_errors(open_nowhere);
    assert_int_equal(lines(content("errors")), 2);
    assert_non_null(strstr(content("errors"), "missing/log"));
}

/* Standard error is a pipe; its reading end is returned. */
static int errors_to_pipe(int *saved) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    *saved = dup(STDERR_FILENO);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    log_remember_standard_error();
    return ends[0];
}

static void errors_back(int saved) {
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
}

/* SIGPIPE would end this program. */
static void a_reader_that_is_gone(void **state) {
    sigset_t signals;
    int saved;
    (void)state;
    log_open(LOG_WARN, "");
    close(errors_to_pipe(&saved));
    signal(SIGPIPE, SIG_DFL);
    errno = 77;
    LOG(LOG_WARN, "to nobody");
    int error = errno;
    errors_back(saved);
    assert_int_equal(error, 77);
    sigpending(&signals);
    assert_false(sigismember(&signals, SIGPIPE));
    pthread_sigmask(SIG_BLOCK, NULL, &signals);
    assert_false(sigismember(&signals, SIGPIPE));
}

/* One that was on its way to the program, which has blocked it, stays. */
static void a_signal_of_the_program(void **state) {
    sigset_t signals, before;
    int saved;
    (void)state;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    raise(SIGPIPE);
    close(errors_to_pipe(&saved));
    LOG(LOG_WARN, "to nobody");
    errors_back(saved);
    sigpending(&signals);
    assert_true(sigismember(&signals, SIGPIPE));
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    assert_int_equal(sigtimedwait(&signals, NULL, &(struct timespec){0}), SIGPIPE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Waiting for a reader would hang here; alarm ends this program then. */
static void a_reader_that_does_not_read(void **state) {
    static char text[1 << 17];
    int saved, reader;
    (void)state;
    log_open(LOG_DEBUG, "");
    reader = errors_to_pipe(&saved);
    alarm(20);
    for (int i = 0; i < 1000; i++)
        LOG(LOG_DEBUG, "%0500d", i);
    ssize_t first = read(reader, text, sizeof text);
    LOG(LOG_DEBUG, "read again");
    alarm(0);
    assert_true(first > 0 && first < 1000 * 500);
    ssize_t rest = read(reader, text, sizeof text - 1);
    text[rest > 0 ? rest : 0] = 0;
    errors_back(saved);
    close(reader);
    assert_non_null(strstr(text, "read again ("));
    assert_non_null(strstr(text, " messages before were left out: nobody read)\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_file),
        cmocka_unit_test(a_reader_that_is_gone),
        cmocka_unit_test(a_signal_of_the_program),
        cmocka_unit_test(a_reader_that_does_not_read),
        cmocka_unit_test(levels),
        cmocka_unit_test(of_one_kind),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(another_standard_error),
        cmocka_unit_test(harmless_lines),
        cmocka_unit_test(a_number_given_anew),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
