/* file.h: files of ours among the descriptors of a program. It may close descriptors that it does
 * not know (daemons do) and be given the number anew for a file of its own: nothing of ours may
 * be written there, nor anything of its own into ours. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* As open(), but never in the place of a standard stream that the program has closed: it is taken
 * meanwhile, for to move the file from there would end the program's locks of it. -1 with errno. */
static inline int file_open(const char *path, int flags, mode_t mode) {
    int place = open("/", O_PATH | O_CLOEXEC);
    int fd = place >= 0 && place <= STDERR_FILENO ? file_open(path, flags, mode)
                                                  : open(path, flags | O_CLOEXEC, mode);
    int error = errno;
    if (place >= 0)
        close(place);
    errno = error;
    return fd;
}

/* The beginning of a small file, as far as it has room, and a zero byte. How many bytes there are;
 * 0 also where it cannot be read. */
static inline size_t file_read_start(const char *path, char *out, size_t capacity) {
    int fd = file_open(path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, out, capacity - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

/* True: the path is a link that is neither ours nor root's: where everybody may write, as in
 * /tmp, any user can put one, to have us write to a file that he may not write to. */
static inline bool file_is_planted(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != geteuid() &&
           status.st_uid != 0;
}

/* True: something is there that is no plain file: a device, a pipe, a folder, and whatever
 * /dev/stderr may lead to. */
static inline bool file_is_special(const char *path) {
    struct stat status;
    bool device = strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0;
    return device || (stat(path, &status) == 0 && !S_ISREG(status.st_mode));
}

/* True: only we, or root, can have written what the status is of. */
static inline bool file_is_trusted(const struct stat *status) {
    return (status->st_uid == geteuid() || status->st_uid == 0) &&
           !(status->st_mode & (S_IWGRP | S_IWOTH));
}

struct file_id {
    dev_t device;
    ino_t inode;
};

/* All zero when fd is not open. */
static inline struct file_id file_identify(int fd) {
    struct stat status;
    if (fstat(fd, &status))
        return (struct file_id){0, 0};
    return (struct file_id){status.st_dev, status.st_ino};
}

static inline bool file_is(int fd, struct file_id id) {
    struct file_id now = file_identify(fd);
    return now.device == id.device && now.inode == id.inode;
}

/* True: a file of that size may be written at all; else the kernel ends the process (SIGXFSZ). */
static inline bool file_size_allowed(uint64_t bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           limit.rlim_cur >= bytes;
}

/* Blocks are allotted now, so that a full disk is an error here and not a SIGBUS later. 0, or the
 * errno. A program that is profiled gets a signal every millisecond:
 * what is not done after 100 of them, a tenth of a second, fails. */
static inline int file_allot(int fd, uint64_t bytes) {
    enum { TRIES = 100 };
    int error = file_size_allowed(bytes) ? EINTR : EFBIG;
    for (int i = 0; i < TRIES && error == EINTR; i++)
        error = posix_fallocate(fd, 0, (off_t)bytes);
    return error;
}
