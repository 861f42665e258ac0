/* late_driver.c: the driver is loaded, as if by another thread, at each moment in which
 * libvramgc.so looks for one of its functions: whichever it is, the function is found afterwards.
 * Each moment is a process of its own: libvramgc.so remembers. */
#include "check.h"

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOMENTS = 30 };

typedef int visitor(struct dl_phdr_info *, size_t, void *);
typedef CUresult get_info(size_t *, size_t *);

static int moments_left;

/* Not by dlsym, which is libvramgc.so's and asks the loader itself. */
static void *of_libc(const char *name, const char *older, const char *newer) {
    void *found = dlvsym(RTLD_NEXT, name, newer);
    return found ? found : dlvsym(RTLD_NEXT, name, older);
}

/* What libvramgc.so asks the loader by. */
int dl_iterate_phdr(visitor *visit, void *context) {
    if (moments_left > 0 && --moments_left == 0)
        CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != NULL);
    int (*real)(visitor *, void *) = NULL;
    *(void **)&real = of_libc("dl_iterate_phdr", "GLIBC_2.2.5", "GLIBC_2.17");
    return real(visit, context);
}

static int at_moment(int moment, get_info *get) {
    size_t free, total;
    moments_left = moment;
    get(&free, &total);
    bool came = moments_left == 0;
    return came && get(&free, &total) == CUDA_ERROR_NOT_FOUND;
}

int main(void) {
    get_info *get = NULL;
    void *ours = dlopen("libvramgc.so", RTLD_NOW | RTLD_NOLOAD),
         *(*find)(void *, const char *) = NULL;
    *(void **)&find = of_libc("dlsym", "GLIBC_2.2.5", "GLIBC_2.34");
    CHECK(ours && find);
    *(void **)&get = find(ours, "cuMemGetInfo_v2");
    CHECK(get != NULL);
    for (int moment = 1; get && moment <= MOMENTS; moment++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(at_moment(moment, get));
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return check_result("late_driver");
}
