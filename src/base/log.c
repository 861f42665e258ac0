/* log.c: see log.h. It must not use stdio streams, which the host may hold locked. */
#include "base/log.h"
#include "base/cancel.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* Of one kind no more than a terminal shows at once: it has 24 to 50 lines. */
enum { LINE_BYTES = 768, MESSAGES_OF_ONE_KIND = 32 };

static struct {
    atomic_int level;
    int file; /* 0: standard error */
    struct file_id file_id;
    struct file_id standard_error; /* as the program found it */
    uint64_t opened_ns;
    atomic_uint unread; /* lines left out since the latest one, for no program reads */
} self;

void log_remember_standard_error(void) {
    self.standard_error = file_identify(STDERR_FILENO);
}

void log_open(enum option_log level, const char *file) {
    self.opened_ns = clock_ns();
    atomic_store(&self.level, (int)level);
    if (!*file)
        return;
    TEXT_OVER(text, path, 512);
    text_add_pattern(&text, file);
    /* A pipe that no program reads yet must not hold up the program. */
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY;
    int opened = file_is_planted(path) ? (errno = EPERM, -1) : file_open(path, flags, 0644);
    if (opened > 0) {
        self.file_id = file_identify(opened);
        self.file = opened;
    } else {
        LOG(LOG_WARN, "cannot write %s (error %d); messages go to standard error", path, errno);
    }
}

void log_silence(void) {
    atomic_store(&self.level, LOG_OFF);
}

bool log_wants(enum option_log level) {
    return (int)level <= atomic_load_explicit(&self.level, memory_order_relaxed);
}

static void add_start(struct text *text, enum option_log level, uint64_t ns) {
    static const char *const names[] = {"off", "error", "warn", "info", "debug"};
    uint64_t ms = ns / MILLISECOND_NS;
    text_format(text, "vramgc: [%ld] %lu:%02lu:%02lu.%03lu %-5s ", (long)getpid(), ms / 3600000,
                ms / 60000 % 60, ms / 1000 % 60, ms % 1000, names[level]);
}

/* A pipe that is full would hold up the caller until it is read. When poll says that there is room,
 * there is room for a line: a pipe has whole pages. */
static bool pipe_has_room(int fd) {
    struct pollfd file = {.fd = fd, .events = POLLOUT};
    return poll(&file, 1, 0) != 0;
}

static void take_signal_back(int number) {
    const struct timespec at_once = {0, 0};
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    while (sigtimedwait(&only, NULL, &at_once) < 0 && errno == EINTR)
        continue;
}

/* The reader of standard error may be gone, or the file may not grow any more, and the program may
 * be one that SIGPIPE or SIGXFSZ ends: they are kept from this thread and taken back, unless one
 * was on its way before. */
static void write_quietly(int fd, const char *line, size_t length) {
    sigset_t ours, before, pending;
    sigemptyset(&ours);
    sigaddset(&ours, SIGPIPE);
    sigaddset(&ours, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    int error = write(fd, line, length) < 0 ? errno : 0;
    int number = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    if (number && !sigismember(&pending, number))
        take_signal_back(number);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The file of VRAMGC_LOG_FILE, else standard error, each as long as it is what it was: a daemon
 * closes what it was given, and the next file, socket or device that it opens gets the number. -1:
 * neither is there any more. */
static int destination(void) {
    if (self.file > 0 && file_is(self.file, self.file_id))
        return self.file;
    return file_is(STDERR_FILENO, self.standard_error) ? STDERR_FILENO : -1;
}

/* A line that cannot be written at once is left out; the next one that can says so. */
static void put_line(int fd, struct text *text) {
    if (!pipe_has_room(fd)) {
        atomic_fetch_add(&self.unread, 1);
        return;
    }
    unsigned unread = atomic_exchange(&self.unread, 0);
    if (unread)
        text_format(text, " (%u messages before were left out: nobody read)", unread);
    text->data[text->length] = '\n'; /* over the final zero byte */
    write_quietly(fd, text->data, text->length + 1);
}

void log_write(enum option_log level, atomic_uint *count, uint64_t ns, const char *format, ...) {
    unsigned number = atomic_fetch_add(count, 1) + 1;
    if (number > MESSAGES_OF_ONE_KIND && level != LOG_DEBUG)
        return;
    int saved_errno = errno, cancel = cancel_disable(); /* the caller may hold a lock */
    TEXT_OVER(text, line, LINE_BYTES);
    va_list arguments;
    add_start(&text, level, ns == LOG_NOW ? clock_ns() - self.opened_ns : ns);
    va_start(arguments, format);
    int wanted = vsnprintf(line + text.length, text.capacity - text.length, format, arguments);
    va_end(arguments);
    if (wanted > 0)
        text.length = min_u64(text.length + (uint64_t)wanted, text.capacity - 1);
    clean_text(line, text.length + 1); /* names of files, settings */
    text.length = strlen(line);
    if (number == MESSAGES_OF_ONE_KIND && level != LOG_DEBUG)
        text_add(&text, " (further messages of this kind are left out)");
    int fd = destination();
    if (fd >= 0)
        put_line(fd, &text);
    cancel_restore(cancel);
    errno = saved_errno;
}
