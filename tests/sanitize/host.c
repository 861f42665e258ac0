/* host.c: the rest of a busy program, preloaded behind libvramgc.so: a thread that asks all of
 * vramgc.h's functions all the time, from before CUDA is used until the process is gone. HOST says
 * what else is done:
 *   fork       children are forked, which call CUDA
 *   extension  threads take and free memory of the driver's own, beyond the end of main
 *   exit       the process ends while PyTorch's threads work
 *   racy, overflow   what a sanitizer has to see: else the tests would pass without one
 * It must wait for what has been done, never for a time. */
#include "vramgc.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 10, OTHERS = 2, ROUNDS = 100, ROUNDS_FOR_REPORT = 50, BLOCKS = 300, BUSY = 20 };
enum { CHILD_HANGS_SECONDS = 120 };

static bool is_child;         /* forked by us */
static atomic_bool has_child; /* that nobody has waited for yet */

static bool role_is(const char *role) {
    const char *host = getenv("HOST");
    return host && strcmp(host, role) == 0;
}

/* The blocks that PyTorch has on the device, 0 where it is not known yet. */
static size_t ask(int device, struct vramgc_block *blocks, size_t capacity) {
    struct vramgc_snapshot snapshot = {.size = sizeof snapshot};
    size_t count = 0;
    vramgc_reclaim(device);
    vramgc_snapshot(device, &snapshot);
    vramgc_blocks(device, blocks, capacity, &count);
    vramgc_mark("host");
    return count;
}

static void write_report(unsigned round) {
    const char *folder = getenv("BATS_TEST_TMPDIR");
    char path[512];
    if (round % ROUNDS_FOR_REPORT)
        return;
    snprintf(path, sizeof path, "%s/host.%d.%u", folder ? folder : ".", (int)getpid(), round);
    if (vramgc_write_report(path) == 0)
        unlink(path);
}

static void *runtime(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

/* The C library of 2023 may fork while another thread adds a handler for exit, and exit then waits
 * in the child before any handler runs: that is not ours. */
static volatile sig_atomic_t leaves, has_begun;

static void begin_to_end(void) {
    has_begun = 1;
    alarm(CHILD_HANGS_SECONDS);
}

static void end_child(int number) {
    if (leaves && !has_begun)
        _exit(0);
    signal(number, SIG_DFL);
    raise(number);
}

/* CUDA does not work in a forked child. One that waits for a lock of a thread that it does not have
 * is ended by the alarm. */
static void be_the_child(void) {
    int (*cuda_malloc)(void **, size_t) = NULL;
    void *p = NULL;
    is_child = true;
    signal(SIGALRM, end_child); /* whoever runs the tests may ignore it */
    alarm(CHILD_HANGS_SECONDS);
    *(void **)&cuda_malloc = runtime("cudaMalloc");
    for (int i = 0; cuda_malloc && i < 10; i++)
        if (cuda_malloc(&p, 1 << 20) == 0)
            _exit(3);
    ask(0, NULL, 0);
    leaves = 1;
    alarm(5);
    atexit(begin_to_end);
    exit(0);
}

static void fork_and_wait(void) {
    int status = -1;
    atomic_store(&has_child, true);
    pid_t child = fork();
    if (child == 0)
        be_the_child();
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fprintf(stderr, "host.c: the child's status is %#x\n", (unsigned)status);
    atomic_store(&has_child, false);
}

/* What is asked for lies beyond its end. */
static void overflow(void) {
    struct vramgc_block *one = malloc(sizeof *one);
    ask(0, one, BLOCKS);
    free(one);
}

/* Two threads have the library write to the same place. */
static void *race(void *unused) {
    static struct vramgc_snapshot shared = {.size = sizeof shared};
    for (;;)
        vramgc_snapshot(0, &shared);
    return unused;
}

static void *ask_all_the_time(void *unused) {
    struct vramgc_block blocks[BLOCKS];
    unsigned busy = 0;
    for (unsigned round = 1;; round++) {
        usleep(300);
        if (role_is("overflow"))
            overflow();
        ask(1, blocks, BLOCKS);
        busy += ask(0, blocks, BLOCKS) > BUSY;
        write_report(round);
        if (role_is("fork") && busy > 0 && busy <= FORKS)
            fork_and_wait();
        if (role_is("exit") && busy == ROUNDS)
            exit(0);
    }
    return unused;
}

static void *extend(void *unused) {
    int (*take)(void **, size_t) = NULL, (*give)(void *) = NULL;
    size_t mebibytes = 1;
    void *p;
    *(void **)&take = runtime("cudaMalloc");
    *(void **)&give = runtime("cudaFree");
    while (take && give) {
        mebibytes = mebibytes % 16 + 1;
        if (take(&p, mebibytes << 20) == 0)
            give(p);
        usleep(100);
    }
    return unused;
}

/* Runs after vramgc's own handler, and before PyTorch's allocator is destroyed: it does not survive
 * that while its threads work, nor in a child that was forked while one of them was in the middle
 * of a change. */
static void go_on_a_little(void) {
    for (int i = 0; role_is("exit") && i < ROUNDS; i++) {
        usleep(300);
        ask(0, NULL, 0);
    }
    if (role_is("exit") || is_child)
        _exit(0);
    while (atomic_load(&has_child))
        usleep(300);
}

static void start_thread(void *(*function)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL) == 0)
        pthread_detach(thread);
}

__attribute__((constructor)) static void start(void) {
    if (strcmp(program_invocation_short_name, "c10drive") != 0 || !vramgc_reclaim)
        return;
    atexit(go_on_a_little);
    start_thread(ask_all_the_time);
    for (int i = 0; i < OTHERS; i++)
        if (role_is("extension") || role_is("racy"))
            start_thread(role_is("racy") ? race : extend);
}
