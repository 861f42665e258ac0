/* loader_lock.c: a constructor that runs inside dlopen, with the loader's lock held, wants a lock
 * that another thread holds while it reports a block, as PyTorch's allocator does. The hook must
 * not wait for the loader there. This is the program, linked with the driver and the libraries of
 * fake_c10.c, and (-DCONSTRUCTOR) the library it opens. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct shared {
    pthread_mutex_t allocator;
    atomic_bool reporting, constructing;
};

extern struct shared shared;

#ifdef CONSTRUCTOR

__attribute__((constructor)) static void wait_for_allocator(void) {
    atomic_store(&shared.constructing, true);
    pthread_mutex_lock(&shared.allocator);
    pthread_mutex_unlock(&shared.allocator);
}

#else

#include "check.h"
#include "fake_c10.h"
#include "cuda/cuda_api.h"

#include <dlfcn.h>
#include <unistd.h>

struct shared shared = {.allocator = PTHREAD_MUTEX_INITIALIZER};

static void *report(void *unused) {
    pthread_mutex_lock(&shared.allocator);
    atomic_store(&shared.reporting, true);
    while (!atomic_load(&shared.constructing))
        usleep(1000);
    fake_c10_report(false, (void *)4096, 512, 1);
    fake_c10_oom(false, 512, 1);
    pthread_mutex_unlock(&shared.allocator);
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;
    if (count != 2)
        return 2;
    alarm(20); /* ends this program if it waits for ever */
    OK(cuInit(0));
    pthread_create(&thread, NULL, report, NULL);
    while (!atomic_load(&shared.reporting))
        usleep(1000);
    CHECK(dlopen(arguments[1], RTLD_NOW) != NULL);
    pthread_join(thread, NULL);
    CHECK(fake_c10_latest().calls == 2);
    return check_result("loader_lock");
}

#endif
