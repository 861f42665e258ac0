/* file.h: knowing a file again by its descriptor. A program may close descriptors that it does
 * not know (daemons do) and be given the number anew for a file of its own: nothing of ours may
 * be written there. */
#ifndef FILE_H
#define FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

/* Whether a file of that size may be written at all: else the kernel ends the process (SIGXFSZ). */
static inline bool file_size_allowed(uint64_t bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           limit.rlim_cur >= bytes;
}

#endif
