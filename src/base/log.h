/* log.h: messages for people: one line, one write, on the standard error with which the program
 * began or in the file of VRAMGC_LOG_FILE, never elsewhere. Nothing is written by a process before
 * its first use of CUDA, except by the launcher. At most 32 messages of one place in the source are
 * written; the last says so. A line that no reader takes, because the pipe is full or its reader
 * gone, is left out: no caller waits for a reader, and none gets SIGPIPE. Never called on the hot
 * path. */
#pragma once

#include "base/base.h"
#include "base/options.h"

/* Before the program runs: messages go to standard error only as long as it is what it is now. */
void log_remember_standard_error(void);

/* level as in VRAMGC_LOG; file: path, or "" for standard error. */
void log_open(enum option_log level, const char *file);

/* For a forked child or a library that stays inert. */
void log_silence(void);

bool log_wants(enum option_log level);

/* ns: so long after recording began it happened, which is told later. */
#define LOG_NOW UINT64_MAX
void log_write(enum option_log level, atomic_uint *count, uint64_t ns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define LOG(level, ...) LOG_AT(level, LOG_NOW, __VA_ARGS__)

#define LOG_AT(level, ns, ...)                                                                     \
    do {                                                                                           \
        static atomic_uint log_count;                                                              \
        if (log_wants(level))                                                                      \
            log_write(level, &log_count, ns, __VA_ARGS__);                                         \
    } while (0)

/* Of these all are written: a few a second at the most, which the user has asked for. */
#define LOG_EACH(level, ...)                                                                       \
    do {                                                                                           \
        atomic_uint log_first = 0;                                                                 \
        if (log_wants(level))                                                                      \
            log_write(level, &log_first, LOG_NOW, __VA_ARGS__);                                    \
    } while (0)
