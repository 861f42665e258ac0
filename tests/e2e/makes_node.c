/* makes_node.c: stands in front of libc and of the driver: /dev/nvidiactl is there once the driver
 * was started, as where root starts the vendor's library, which makes it itself; and
 * /proc/driver/nvidia/version is there where SEEN_MODULE=yes, and says SEEN_VERSION where that is
 * set. It must touch no file of the machine's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int *loaded; /* in all processes */

__attribute__((constructor)) static void start(void) {
    loaded = mmap(NULL, sizeof *loaded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

void *dlopen(const char *name, int flags) {
    void *(*real)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
    if (name && strstr(name, "libcuda"))
        *loaded = 1;
    return real(name, flags);
}

int access(const char *path, int mode) {
    int (*real)(const char *, int) = dlsym(RTLD_NEXT, "access");
    const char *module = getenv("SEEN_MODULE");
    if (strcmp(path, "/dev/nvidiactl") == 0)
        return *loaded ? 0 : -1;
    if (strcmp(path, "/proc/driver/nvidia/version") == 0)
        return module && strcmp(module, "yes") == 0 ? 0 : -1;
    return strcmp(path, "/dev/dxg") == 0 ? -1 : real(path, mode);
}

int open(const char *path, int flags, ...) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    const char *version = getenv("SEEN_VERSION");
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (!version || strcmp(path, "/proc/driver/nvidia/version") != 0)
        return real(path, flags, mode);
    int file = memfd_create("version", MFD_CLOEXEC);
    dprintf(file, "NVRM version: %s\nGCC version:  gcc version 12.2.0\n", version);
    lseek(file, 0, SEEK_SET);
    return file;
}
