/* forked.c: a process forks while others of its threads are in the loader's list, of which the C
 * library leaves the lock taken in the child. Each child asks for functions, as it could without
 * libvramgc.so, and is waited for; one that hangs is ended by its alarm. */
#include "check.h"

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 200, CHILD_HANGS_SECONDS = 20, CHILD_DIFFERS = 2 };

static struct {
    sem_t inside, leave;
    atomic_bool done;
} held;

static int stay(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    sem_post(&held.inside);
    sem_wait(&held.leave);
    return 1;
}

static void *stay_in_list(void *unused) {
    dl_iterate_phdr(stay, NULL);
    return unused;
}

static void *ask_all_the_time(void *unused) {
    while (!atomic_load(&held.done))
        CHECK(dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2") != NULL);
    return unused;
}

typedef void role(void *function);

/* dlopen and dlclose of what is loaded: of what is not, the C library itself would hang. */
static void be_the_child(void *function) {
    bool same = dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2") == function;
    void *other = dlopen("libc.so.6", RTLD_LAZY);
    _exit(same && other && dlclose(other) == 0 ? 0 : CHILD_DIFFERS);
}

/* CUDA does not work in this one, and says so. */
static void be_the_child_of_cuda(void *function) {
    size_t free = 0, total = 0;
    const char *text = NULL; /* the first call of it */
    if (cuMemGetInfo(&free, &total) == CUDA_SUCCESS ||
        cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text) != CUDA_SUCCESS || !text)
        _exit(CHILD_DIFFERS);
    be_the_child(function);
}

static bool child_ends_well(role *be, void *function) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL); /* whoever runs the tests may ignore it */
        alarm(CHILD_HANGS_SECONDS);
        be(function);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

/* No CUDA was used yet: the child may be the one that uses it. */
static void while_others_ask(void *function) {
    pthread_t thread;
    bool well = true;
    CHECK(pthread_create(&thread, NULL, ask_all_the_time, NULL) == 0);
    for (int i = 0; i < FORKS && well; i++)
        well = child_ends_well(be_the_child, function);
    CHECK(well);
    atomic_store(&held.done, true);
    pthread_join(thread, NULL);
}

static void while_one_stays(void *function) {
    pthread_t thread;
    sem_init(&held.inside, 0, 0);
    sem_init(&held.leave, 0, 0);
    CHECK(pthread_create(&thread, NULL, stay_in_list, NULL) == 0);
    sem_wait(&held.inside);
    CHECK(child_ends_well(be_the_child_of_cuda, function));
    sem_post(&held.leave);
    pthread_join(thread, NULL);
}

int main(void) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr p;
    void *function = dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2");
    CHECK(function != NULL);
    while_others_ask(function);
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&p, MIB));
    CHECK(check_file() != NULL);
    while_one_stays(function);
    OK(cuMemFree(p));
    return check_result("forked");
}
