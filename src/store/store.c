/* store.c: creating and keeping the statistics file; see store.h. It must not fail the host: a full
 * disk is found out when the file is made, not by a signal when it is written. */
#include "store/store.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Twenty times as many names as files are kept (VRAMGC_KEEP). */
enum { NAME_TRIES = 1000, PATH_BYTES = 2048 };

static struct vramgc_file lobby; /* where the figures live until the file is open */
_Atomic(struct vramgc_file *) store_current = &lobby;

static struct {
    int copy_to; /* file descriptor when no shared mapping could be had, else 0 */
    struct file_id copy_id;
    char path[PATH_BYTES];
} self;

const char *store_path(void) {
    return self.path;
}

/* The statistics of an earlier life of the same process id are never overwritten. Nobody else reads
 * them: they hold the command line. */
static int create_new(const char *pattern) {
    struct text text = TEXT_IN(self.path);
    text_add_pattern(&text, pattern);
    size_t length = text.length;
    if (file_is_special(self.path)) { /* .1 beside a device, a pipe or a folder is nobody's wish */
        errno = EEXIST;
        return -1;
    }
    for (int i = 0; i < NAME_TRIES; i++) {
        text.length = length;
        if (i > 0)
            text_format(&text, ".%d", i);
        int fd = file_open(self.path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static bool allot(int fd, size_t bytes) {
    int error = file_allot(fd, bytes);
    if (error)
        errno = error;
    return error == 0;
}

static void move_in(struct vramgc_file *file) {
    memcpy(file, store_file(), sizeof *file);
    atomic_store_explicit(&store_current, file, memory_order_release);
}

static bool give_up(int fd) {
    int error = errno;
    bool special = fd < 0 && file_is_special(self.path);
    if (fd >= 0) {
        close(fd);
        unlink(self.path);
    }
    LOG(LOG_WARN, "cannot keep statistics in %s: %s; this run leaves no file", self.path,
        special ? "it is no plain file" : strerrordesc_np(error));
    self.path[0] = 0;
    return false;
}

bool store_open(const char *pattern) {
    if (!*pattern)
        return false;
    int fd = create_new(pattern);
    if (fd < 0 || !allot(fd, sizeof(struct vramgc_file)))
        return give_up(fd);
    void *p = mmap(NULL, sizeof(struct vramgc_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        self.copy_to = fd;
        self.copy_id = file_identify(fd);
        store_copy_out();
        LOG(LOG_WARN, "%s cannot be mapped: statistics are copied there once a second", self.path);
        return true;
    }
    close(fd);
    move_in(p);
    return true;
}

void store_copy_out(void) {
    if (self.copy_to <= 0 || !file_is(self.copy_to, self.copy_id) ||
        !file_size_allowed(sizeof(struct vramgc_file)))
        return;
    const char *from = (const char *)store_file();
    for (size_t done = 0; done < sizeof(struct vramgc_file);) {
        ssize_t n =
            pwrite(self.copy_to, from + done, sizeof(struct vramgc_file) - done, (off_t)done);
        if (n <= 0)
            return;
        done += (size_t)n;
    }
}

bool store_save_as(const char *path) {
    if (!file_size_allowed(sizeof(struct vramgc_file))) {
        errno = EFBIG;
        return false;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    const char *from = (const char *)store_file();
    size_t done = 0;
    while (done < sizeof(struct vramgc_file)) {
        ssize_t n = write(fd, from + done, sizeof(struct vramgc_file) - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    int error = errno;
    bool complete = close(fd) == 0 && done == sizeof(struct vramgc_file);
    if (!complete)
        unlink(path);
    errno = error;
    return complete;
}

/* The mapping itself stays: another thread of the parent cannot exist here, but unmapping would
 * gain nothing, and a stale pointer would then be fatal instead of harmless. */
void store_abandon(void) {
    atomic_store_explicit(&store_current, &lobby, memory_order_release);
    self.copy_to = 0;
    self.path[0] = 0;
}

uint64_t store_age_ns(void) {
    return minus_u64(clock_ns(), figure_get(&store_file()->started_ns));
}

struct vramgc_device *store_device(unsigned index) {
    struct vramgc_file *file = store_file();
    uint32_t count = __atomic_load_n(&file->device_count, __ATOMIC_RELAXED);
    while (count < index + 1 &&
           !__atomic_compare_exchange_n(&file->device_count, &count, index + 1, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    figure_set(&file->devices[index].present, 1);
    return &file->devices[index];
}

void gauge_add(struct vramgc_gauge *gauge, uint64_t bytes) {
    uint64_t value = figure_add(&gauge->current, bytes);
    uint64_t peak = figure_get(&gauge->peak);
    while (value > peak && !__atomic_compare_exchange_n(&gauge->peak, &peak, value, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void gauge_subtract(struct vramgc_gauge *gauge, uint64_t bytes) {
    uint64_t value = figure_get(&gauge->current);
    while (!__atomic_compare_exchange_n(&gauge->current, &value, minus_u64(value, bytes), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}
