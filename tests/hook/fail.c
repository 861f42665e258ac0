/* fail.c: makes the C library refuse what the statistics file needs, and nothing else:
 * FAIL_ALLOT=1: posix_fallocate says the disk is full; FAIL_ALLOT=N: N - 1 times that a signal
 * came; FAIL_MAP=1: a file cannot be mapped shared. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

int posix_fallocate(int fd, off_t offset, off_t bytes) {
    static int calls;
    int (*real)(int, off_t, off_t) = NULL;
    const char *fail = getenv("FAIL_ALLOT");
    if (fail && atoi(fail) == 1)
        return ENOSPC;
    if (fail && ++calls < atoi(fail))
        return EINTR;
    *(void **)&real = dlsym(RTLD_NEXT, "posix_fallocate");
    return real(fd, offset, bytes);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    void *(*real)(void *, size_t, int, int, int, off_t) = NULL;
    if (fd >= 0 && (flags & MAP_SHARED) && bytes > 1 << 20 && getenv("FAIL_MAP")) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "mmap");
    return real(address, bytes, protection, flags, fd, offset);
}
