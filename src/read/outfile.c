/* outfile.c: see outfile.h. */
#include "read/outfile.h"
#include "read/complain.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How what we write begins: reports as JSON and as text, then the formats of `vramgc export`. */
static const char *const beginnings[] = {"{\n  \"schema\": ",
                                         "-- vramgc ",
                                         "# HELP vramgc_",
                                         "{\n  \"displayTimeUnit\": ",
                                         "**vramgc:** ",
                                         "\x80\x02}(X\x0d",
                                         "<!doctype html>\n<!-- vramgc "};

static bool is_report(const char *path) {
    char start[32] = "";
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    size_t length = fread(start, 1, sizeof start - 1, stream);
    fclose(stream);
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(start, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return length == 0;
}

/* A device or pipe is written to directly. */
static bool is_regular_or_absent(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode);
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool folder_is_writable(const char *path) {
    char *copy = strdup(path);
    bool fine = copy && access(dirname(copy), W_OK | X_OK) == 0;
    free(copy);
    return fine;
}

/* The path that the link leads to, seen from its folder; to be freed. */
static char *behind_link(const char *path) {
    char target[PATH_MAX], *result = NULL;
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return NULL;
    target[length] = 0;
    const char *slash = *target == '/' ? NULL : strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    return asprintf(&result, "%.*s%s", folder, path, target) < 0 ? NULL : result;
}

/* Links are followed here, so that the rename replaces the file and not a link such as /dev/stdout;
 * but none that another user has planted, and no more than the kernel follows (MAXSYMLINKS). What
 * is returned is to be freed; NULL with errno. */
static char *behind_links(const char *path) {
    enum { MOST_LINKS = 40 };
    struct stat status;
    char *at = strdup(path);
    for (int i = 0; at && lstat(at, &status) == 0 && S_ISLNK(status.st_mode); i++) {
        bool leads = stat(at, &status) == 0 || errno == ENOENT;
        bool allowed = leads && !file_is_planted(at);
        int error = leads ? EPERM : errno;
        if (allowed && !is_regular_or_absent(at))
            return at;
        char *next = allowed && i < MOST_LINKS ? behind_link(at) : NULL;
        free(at);
        at = next;
        errno = allowed ? ELOOP : error;
    }
    return at;
}

static bool may_replace(const char *path, bool force) {
    if (!*path || is_folder(path)) {
        complain("%s is not the name of a file to be written", *path ? path : "\"\"");
        return false;
    }
    if (!is_regular_or_absent(path))
        return true;
    if (access(path, F_OK) == 0 && !force && !is_report(path)) {
        complain("%s exists and is no report of vramgc; it is left alone", path);
        return false;
    }
    if (!folder_is_writable(path)) {
        complain("%s cannot be written: %s", path, strerror(errno));
        return false;
    }
    return true;
}

bool outfile_may_write(const char *path) {
    return folder_is_writable(path) && (access(path, F_OK) != 0 || is_report(path));
}

/* The name to be written to, to be freed; NULL after a complaint. */
static char *checked(const char *path, bool force) {
    char *real = behind_links(path);
    if (!real) {
        complain("%s is a link that is not followed: %s", path, strerror(errno));
    } else if (!may_replace(real, force)) {
        free(real);
        real = NULL;
    }
    return real;
}

bool outfile_check(const char *path, bool force) {
    if (!path || strcmp(path, "-") == 0)
        return true;
    char *real = checked(path, force);
    free(real);
    return real != NULL;
}

/* Nothing is cut off: it may be a file by now. */
static FILE *open_special(const char *path) {
    struct stat status;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && !S_ISREG(status.st_mode))
        return fdopen(fd, "w");
    if (fd >= 0)
        close(fd);
    return NULL;
}

static FILE *open_for(struct outfile *file) {
    enum { MOST_NAMES = 100 }; /* of which others of this process have taken some */
    FILE *stream = NULL;
    if (!is_regular_or_absent(file->path))
        return open_special(file->path);
    for (int i = 0; !stream && i < MOST_NAMES; i++) {
        free(file->temporary);
        if (asprintf(&file->temporary, "%s.%ld.%d.tmp", file->path, (long)getpid(), i) < 0)
            file->temporary = NULL;
        stream = file->temporary ? fopen(file->temporary, "wxe") : NULL;
        if (!stream && errno != EEXIST)
            break;
    }
    return stream;
}

bool outfile_open(struct outfile *file, const char *path, bool force) {
    *file = (struct outfile){.stream = stdout};
    if (!path || strcmp(path, "-") == 0)
        return true;
    file->path = checked(path, force);
    if (!file->path)
        return false;
    file->stream = open_for(file);
    if (file->stream)
        return true;
    complain("%s cannot be written: %s", path, strerror(errno));
    free(file->path);
    free(file->temporary);
    return false;
}

static bool finish(struct outfile *file) {
    bool fine = !ferror(file->stream);
    fine = fflush(file->stream) == 0 && fine;
    if (!file->path)
        return fine;
    fine = fclose(file->stream) == 0 && fine;
    if (file->temporary)
        fine = fine && rename(file->temporary, file->path) == 0;
    return fine;
}

bool outfile_close(struct outfile *file) {
    bool fine = finish(file);
    if (!fine) {
        complain("%s cannot be written: %s", file->path ? file->path : "standard output",
                 strerror(errno));
        if (file->temporary)
            unlink(file->temporary);
    }
    free(file->path);
    free(file->temporary);
    return fine;
}
