/* cancel.c: a thread is cancelled in the first CUDA call of the process, where vramgc opens files
 * and starts its own thread: it must leave no lock behind, and recording has begun. Another thread
 * then works as ever. Linked with the runtime. */
#include "check.h"

#include "cuda/cuda_api.h"

#include <pthread.h>
#include <time.h>

enum { HANG_SECONDS = 60 };

/* The cancellation is on its way already: it takes effect at the first function that allows it. */
static void *is_cancelled(void *unused) {
    void *p = NULL;
    pthread_cancel(pthread_self());
    cudaMalloc(&p, 4 * MIB);
    return unused;
}

static void *goes_on(void *unused) {
    void *p = NULL;
    OK(cudaMalloc(&p, 3 * MIB));
    OK(cudaFree(p));
    return unused;
}

static bool ends(pthread_t thread) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HANG_SECONDS;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, NULL, is_cancelled, NULL);
    CHECK(ends(first));
    CHECK(check_file() != NULL);
    pthread_create(&second, NULL, goes_on, NULL);
    CHECK(ends(second));
    CHECK(calls_of("cudaMalloc") == 2);
    return check_result("cancel");
}
