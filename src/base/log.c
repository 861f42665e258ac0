/* log.c: see log.h. It must not use stdio streams, which the host may hold locked. */
#include "base/log.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_BYTES = 768, MESSAGES_OF_ONE_KIND = 32 };

static struct {
    atomic_int level;
    int file; /* 0: standard error */
    struct file_id file_id;
    uint64_t opened_ns;
} self;

void log_open(enum option_log level, const char *file) {
    self.opened_ns = clock_ns();
    atomic_store(&self.level, (int)level);
    if (!*file)
        return;
    char path[512];
    struct text text = TEXT_IN(path);
    text_add_pattern(&text, file);
    int opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
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

static void add_start(struct text *text, enum option_log level) {
    static const char *const names[] = {"off", "error", "warn", "info", "debug"};
    uint64_t ms = (clock_ns() - self.opened_ns) / MILLISECOND_NS;
    text_format(text, "vramgc: [%ld] %llu:%02llu:%02llu.%03llu %-5s ", (long)getpid(),
                (unsigned long long)(ms / 3600000), (unsigned long long)(ms / 60000 % 60),
                (unsigned long long)(ms / 1000 % 60), (unsigned long long)(ms % 1000),
                names[level]);
}

void log_write(enum option_log level, atomic_uint *count, const char *format, ...) {
    unsigned number = atomic_fetch_add(count, 1) + 1;
    if (number > MESSAGES_OF_ONE_KIND && level != LOG_DEBUG)
        return;
    int saved_errno = errno;
    char line[LINE_BYTES];
    struct text text = text_in(line, sizeof line - 1);
    add_start(&text, level);
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(line + text.length, text.capacity - text.length, format, arguments);
    va_end(arguments);
    if (wanted > 0)
        text.length = min_u64(text.length + (uint64_t)wanted, text.capacity - 1);
    if (number == MESSAGES_OF_ONE_KIND && level != LOG_DEBUG)
        text_add(&text, " (further messages of this kind are left out)");
    line[text.length++] = '\n';
    bool to_file = self.file > 0 && file_is(self.file, self.file_id);
    ssize_t written = write(to_file ? self.file : STDERR_FILENO, line, text.length);
    (void)written; /* nobody could be told */
    errno = saved_errno;
}
