/* files.c: see files.h. It must open no file that the program may have open: to close it would end
 * the program's own locks of it (fcntl). So files are known by their paths, as Linux tells them. */
#include "host/files.h"

#include "base/base.h"
#include "base/file.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/syscall.h>

/* At 0.6 GB/s, which is slow for a disk of today, one of this size is open for as long as it takes
 * from one look to the next. */
#define LEAST_BYTES (64 * MEBIBYTE)

/* Between two rests; Flux has 8. What is more is seen once one of these is dropped. */
enum { FILES = 32 };

struct known {
    uint64_t bytes;
    bool is_here, dropped;
    char path[PATH_MAX]; /* empty: none */
};

/* A part of what /proc lists a folder in: see getdents64(2). */
struct entry {
    uint64_t inode, next;
    unsigned short length;
    unsigned char type;
    char name[];
};

static struct {
    struct known files[FILES];
    uint64_t whole_ns, again_bytes; /* when what is mapped was last read */
} self;

static struct known *find(const char *path) {
    for (size_t i = 0; i < FILES; i++)
        if (*self.files[i].path && strcmp(self.files[i].path, path) == 0)
            return &self.files[i];
    return NULL;
}

/* One without a file, or whose file was dropped. */
static struct known *find_place(void) {
    struct known *place = NULL;
    for (size_t i = 0; i < FILES; i++)
        if (!*self.files[i].path || (!place && self.files[i].dropped))
            place = &self.files[i];
    return place;
}

static void see(const char *path, uint64_t bytes) {
    struct known *known = find(path);
    if (!known && bytes >= LEAST_BYTES && strlen(path) < PATH_MAX && (known = find_place())) {
        strcpy(known->path, path);
        known->bytes = 0;
        known->dropped = false;
    }
    if (!known)
        return;
    if (known->dropped)
        self.again_bytes += known->bytes;
    known->bytes = max_u64(known->bytes, bytes);
    known->is_here = true;
    known->dropped = false;
}

/* The program may close it meanwhile, and open another: what is told is told of one of both. */
static void see_open(int list, const char *name) {
    struct stat status;
    char path[PATH_MAX];
    int fd = atoi(name);
    if (*name == '.' || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size < (off_t)LEAST_BYTES || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
        return;
    ssize_t length = readlinkat(list, name, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    if (*path == '/')
        see(path, (uint64_t)status.st_size);
}

static void see_all_open(void) {
    _Alignas(struct entry) char entries[4096];
    int list = file_open("/proc/self/fd", O_RDONLY | O_DIRECTORY, 0);
    for (long n; list >= 0 && (n = syscall(SYS_getdents64, list, entries, sizeof entries)) > 0;)
        for (long at = 0; at < n;) {
            const struct entry *entry = (const struct entry *)(entries + at);
            see_open(list, entry->name);
            at += entry->length;
        }
    if (list >= 0)
        close(list);
}

/* FROM-TO rwxs ... /PATH. What the program writes to, or runs, is not read and let go. */
static void see_mapping(const char *line) {
    char *end;
    uint64_t from = strtoull(line, &end, 16), to = *end ? strtoull(end + 1, &end, 16) : 0;
    const char *path = strchr(line, '/');
    if (path && strlen(end) > strlen(" rwxs") && end[3] != 'x' && !(end[2] == 'w' && end[4] == 's'))
        see(path, minus_u64(to, from));
}

static bool see_all_mapped(void) {
    char text[2 * PATH_MAX];
    size_t length = 0;
    int fd = file_open("/proc/self/maps", O_RDONLY, 0);
    for (ssize_t n; fd >= 0 && (n = read(fd, text + length, sizeof text - 1 - length)) > 0;) {
        char *line = text, *end;
        text[length += (size_t)n] = 0;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            see_mapping(line);
        }
        length -= (size_t)(line - text);
        memmove(text, line, length);
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool is_gone(const struct known *file) {
    return *file->path && !file->is_here && !file->dropped;
}

bool host_files_gone(uint64_t now_ns, uint64_t *again_bytes) {
    bool whole = now_ns - self.whole_ns >= SECOND_NS, gone = false;
    for (size_t i = 0; whole && i < FILES; i++)
        self.files[i].is_here = false;
    see_all_open();
    if (whole) {
        self.whole_ns = now_ns;
        whole = see_all_mapped();
    }
    for (size_t i = 0; whole && i < FILES; i++)
        gone = gone || is_gone(&self.files[i]);
    *again_bytes = self.again_bytes;
    self.again_bytes = 0;
    return gone;
}

static bool drop(const char *path) {
    struct stat status;
    int fd = file_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    bool done = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    if (fd >= 0)
        close(fd);
    return done;
}

void host_files_drop(void) {
    for (size_t i = 0; i < FILES; i++) {
        struct known *file = &self.files[i];
        if (!is_gone(file))
            continue;
        file->dropped = drop(file->path);
        if (!file->dropped)
            *file->path = 0;
    }
}
