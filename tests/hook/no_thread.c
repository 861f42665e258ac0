/* no_thread.c: refuses libvramgc.so, and nobody else, a thread of its own. For tests of what the
 * hooks count at each moment, which the background thread would change whenever it looks; and of
 * what happens then. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
    Dl_info info;
    create *real = NULL;
    if (dladdr(__builtin_return_address(0), &info) && info.dli_fname &&
        strstr(info.dli_fname, "libvramgc.so"))
        return EAGAIN;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, start, argument);
}
