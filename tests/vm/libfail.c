/* libfail.c: lets calls of the library under test into libc fail: LIBFAIL=FUNCTION:N:COUNT, the
 * N-th call and COUNT in all. It must leave everybody else's calls alone. At the end it writes what
 * it has seen to LIBFAIL_COUNT: FUNCTION CALLS FAILED, a line each. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 40 };

enum {
    ID_mmap,
    ID_munmap,
    ID_madvise,
    ID_open,
    ID_read,
    ID_write,
    ID_pwrite,
    ID_close,
    ID_fcntl,
    ID_fstat,
    ID_posix_fallocate,
    ID_readlink,
    ID_setenv,
    ID_access,
    ID_poll,
    ID_nanosleep,
    ID_pthread_create,
    ID_pthread_attr_init,
    ID_pthread_attr_setstacksize,
    COUNT
};

static const char *const names[] = {
    [ID_mmap] = "mmap",
    [ID_munmap] = "munmap",
    [ID_madvise] = "madvise",
    [ID_open] = "open",
    [ID_read] = "read",
    [ID_write] = "write",
    [ID_pwrite] = "pwrite",
    [ID_close] = "close",
    [ID_fcntl] = "fcntl",
    [ID_fstat] = "fstat",
    [ID_posix_fallocate] = "posix_fallocate",
    [ID_readlink] = "readlink",
    [ID_setenv] = "setenv",
    [ID_access] = "access",
    [ID_poll] = "poll",
    [ID_nanosleep] = "nanosleep",
    [ID_pthread_create] = "pthread_create",
    [ID_pthread_attr_init] = "pthread_attr_init",
    [ID_pthread_attr_setstacksize] = "pthread_attr_setstacksize",
};

static struct {
    pthread_once_t once;
    uintptr_t begin, end; /* the library */
    char function[NAME_BYTES];
    unsigned long first, count;
    void *real[COUNT];
    atomic_ulong seen[COUNT], failed[COUNT];
} self = {.once = PTHREAD_ONCE_INIT};

static int visit(struct dl_phdr_info *info, size_t size, void *context) {
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size;
    (void)context;
    if (!name || strncmp(name + 1, "libvramgc", 9) != 0)
        return 0;
    self.begin = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t to = from + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        self.begin = from < self.begin ? from : self.begin;
        self.end = to > self.end ? to : self.end;
    }
    return 1;
}

static void set_up(void) {
    const char *text = getenv("LIBFAIL");
    dl_iterate_phdr(visit, NULL);
    if (text)
        sscanf(text, "%39[^:]:%lu:%lu", self.function, &self.first, &self.count);
}

static bool is_of_the_library(const void *caller) {
    pthread_once(&self.once, set_up);
    return (uintptr_t)caller - self.begin < self.end - self.begin;
}

/* Whether this call is to fail. */
static bool fails(int id, const void *caller) {
    if (!is_of_the_library(caller))
        return false;
    unsigned long now = atomic_fetch_add(&self.seen[id], 1) + 1;
    bool due =
        strcmp(self.function, names[id]) == 0 && now >= self.first && now - self.first < self.count;
    if (due)
        atomic_fetch_add(&self.failed[id], 1);
    return due;
}

static void *real(int id) {
    if (!self.real[id])
        self.real[id] = dlsym(RTLD_NEXT, names[id]);
    return self.real[id];
}

/* A function that answers `failure` and sets errno, or answers with the error's number itself. */
#define WRAP(result, name, failure, parameters, arguments)                                         \
    result name parameters {                                                                       \
        if (fails(ID_##name, __builtin_return_address(0))) {                                       \
            errno = ENOMEM;                                                                        \
            return failure;                                                                        \
        }                                                                                          \
        result(*call) parameters;                                                                  \
        *(void **)&call = real(ID_##name);                                                         \
        return call arguments;                                                                     \
    }

WRAP(void *, mmap, MAP_FAILED, (void *at, size_t n, int access, int flags, int fd, off_t from),
     (at, n, access, flags, fd, from))
WRAP(int, munmap, -1, (void *at, size_t n), (at, n))
WRAP(int, madvise, -1, (void *at, size_t n, int advice), (at, n, advice))
WRAP(ssize_t, read, -1, (int fd, void *to, size_t n), (fd, to, n))
WRAP(ssize_t, write, -1, (int fd, const void *from, size_t n), (fd, from, n))
WRAP(ssize_t, pwrite, -1, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
WRAP(int, close, -1, (int fd), (fd))
WRAP(int, fstat, -1, (int fd, struct stat *out), (fd, out))
WRAP(int, posix_fallocate, ENOSPC, (int fd, off_t at, off_t n), (fd, at, n))
WRAP(ssize_t, readlink, -1, (const char *path, char *out, size_t n), (path, out, n))
WRAP(int, setenv, -1, (const char *name, const char *value, int over), (name, value, over))
WRAP(int, access, -1, (const char *path, int mode), (path, mode))
WRAP(int, poll, -1, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
WRAP(int, nanosleep, -1, (const struct timespec *time, struct timespec *rest), (time, rest))
WRAP(int, pthread_create, EAGAIN,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
     (thread, attributes, run, argument))
WRAP(int, pthread_attr_init, ENOMEM, (pthread_attr_t * attributes), (attributes))
WRAP(int, pthread_attr_setstacksize, EINVAL, (pthread_attr_t * attributes, size_t n),
     (attributes, n))

int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = va_arg(list, int);
    va_end(list);
    if (fails(ID_open, __builtin_return_address(0))) {
        errno = EMFILE;
        return -1;
    }
    int (*call)(const char *, int, int);
    *(void **)&call = real(ID_open);
    return call(path, flags, mode);
}

int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (fails(ID_fcntl, __builtin_return_address(0))) {
        errno = EINVAL;
        return -1;
    }
    int (*call)(int, int, void *);
    *(void **)&call = real(ID_fcntl);
    return call(fd, command, argument);
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("LIBFAIL_COUNT");
    FILE *file = path ? fopen(path, "a") : NULL;
    for (int i = 0; file && i < COUNT; i++)
        if (self.seen[i])
            fprintf(file, "%s %lu %lu\n", names[i], self.seen[i], self.failed[i]);
    if (file)
        fclose(file);
}
