/* first.c: preloaded between a sanitizer's runtime and libvramgc.so. The runtime looks its
 * functions up by dlsym before it is ready, and libvramgc.so, which overrides dlsym, is
 * instrumented and needs a runtime that is ready. Until then the C library answers. It must not be
 * instrumented itself. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

typedef void *lookup(void *, const char *);

static lookup *libc, *next;

/* The objects that this one needs, the runtime among them, are ready when it is. */
static bool ready;

__attribute__((constructor)) static void be_ready(void) {
    ready = true;
}

static void find_libc(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t i = 0; !libc && i < sizeof versions / sizeof *versions; i++)
        libc = (lookup *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

/* Not a tail call: RTLD_NEXT is after the one who calls, and that is this object. */
static void find_next(void) {
    void *volatile found = libc(RTLD_NEXT, "dlsym");
    next = (lookup *)found;
}

/* Whoever asks is known by the return address: each way has to end in a jump (sanitize.mk). */
__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name) {
    if (!libc)
        find_libc();
    if (!ready)
        return libc(handle, name);
    if (!next)
        find_next();
    return next(handle, name);
}
