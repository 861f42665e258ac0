/* reading_race.c: another thread asks what is free while the one that has just got memory has not
 * told of it: the memory is not taken for that of others; nor is what a pool has grown by. Nor is
 * what was read while memory came or went an answer for who is refused afterwards (`answers`,
 * `limited`). With INTERPOSER: what stands behind vramgc in front of the driver, and lets the other
 * thread in at that moment. */
#include "cuda/cuda_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

typedef CUresult alloc_t(CUdeviceptr *, size_t);
typedef CUresult info_t(size_t *, size_t *);

/* Called when the driver has given memory, and when it has said what is free to that thread
 * (vramgc's own asks, too), which takes so long: the longer, the longer a reading will do. */
struct races {
    void (*allocated)(void), (*asked)(void);
    pthread_t asking;
    long info_ns;
};

#ifdef INTERPOSER

#define OURS __attribute__((visibility("default")))

OURS struct races reading_races;

OURS CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    alloc_t *next = (alloc_t *)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    CUresult result = next(p, n);
    if (result == CUDA_SUCCESS && reading_races.allocated)
        reading_races.allocated();
    return result;
}

OURS CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    info_t *next = (info_t *)dlsym(RTLD_NEXT, "cuMemGetInfo_v2");
    struct timespec slow = {0, reading_races.info_ns};
    nanosleep(&slow, NULL);
    CUresult result = next(free, total);
    if (reading_races.asked && pthread_equal(pthread_self(), reading_races.asking))
        reading_races.asked();
    return result;
}

#else

#include "check.h"

enum { SLOW_NS = 50 * 1000 * 1000 }; /* a reading will do for 2 s */
enum { ANSWER_COSTS = 40 };          /* as in card/reading.c */

static struct races *races;
static struct timespec begun;
static CUdeviceptr given;

static size_t ask(void) {
    size_t free = 0, total;
    OK(cuMemGetInfo_v2(&free, &total));
    return free;
}

static void only_ask(void) {
    ask();
}

static void get_too_much(void) {
    CUdeviceptr none;
    CHECK(cuMemAlloc_v2(&none, (size_t)1 << 50) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void give(void) {
    OK(cuMemFree_v2(given));
}

/* What the other thread does. */
struct other {
    CUcontext context;
    void (*does)(void);
};

static void *other_thread(void *argument) {
    const struct other *other = argument;
    OK(cuCtxSetCurrent(other->context));
    other->does();
    return NULL;
}

static void by_other(void (*does)(void)) {
    struct other other = {NULL, does};
    pthread_t thread;
    OK(cuCtxGetCurrent(&other.context));
    pthread_create(&thread, NULL, other_thread, &other);
    pthread_join(thread, NULL);
}

static void other_asks(void) {
    by_other(only_ask);
}

static void ask_and_get_too_much(void) {
    ask();
    get_too_much();
}

static void other_reads(void) {
    by_other(ask_and_get_too_much);
}

static void other_gives(void) {
    races->asked = NULL;
    by_other(give);
}

static uint64_t others(void) {
    return check_file()->devices[0].stats.others_bytes.current;
}

static void not_others(void) {
    CUdeviceptr second, pooled;
    uint64_t before = others();
    races->allocated = other_asks;
    OK(cuMemAlloc_v2(&second, 64 * MIB));
    races->allocated = NULL;
    CHECK(others() == before);
    ask();
    CHECK(others() == before);
    OK(cuMemAllocAsync(&pooled, MIB, NULL)); /* the pool grows by more, and nobody has looked */
    ask();
    CHECK(others() == before);
    OK(cuMemFreeAsync(pooled, NULL));
    OK(cuMemFree_v2(second));
}

static uint64_t free_by_latest_refusal(void) {
    const struct vramgc_file *file = check_file();
    return file->refusals[(file->refusals_written - 1) % VRAMGC_MAX_REFUSALS].free_bytes;
}

static void refused(void) {
    get_too_much();
    CHECK(free_by_latest_refusal() == ask());
}

/* While the driver counts what the books do not the other thread reads, and so does vramgc, as it
 * is refused; then memory goes while this thread reads. */
static void answers(void) {
    races->info_ns = SLOW_NS;
    ask();
    races->allocated = other_reads;
    OK(cuMemAlloc_v2(&given, 64 * MIB));
    races->allocated = NULL;
    refused();
    races->asked = other_gives;
    ask();
    CHECK(races->asked == NULL);
    refused();
}

/* Until no reading that was made so far will do: none has taken longer than all this. */
static void wait_for_readings_to_age(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long ns = (now.tv_sec - begun.tv_sec) * 1000000000LL + now.tv_nsec - begun.tv_nsec;
    ns *= ANSWER_COSTS;
    struct timespec rest = {ns / 1000000000, ns % 1000000000};
    nanosleep(&rest, NULL);
}

/* The head-room lets it be asked for no more than was free before the other thread gave memory
 * back; what is asked for once more is there. */
static void limited(void) {
    CUdeviceptr large;
    OK(cuMemAlloc_v2(&given, 64 * MIB));
    wait_for_readings_to_age();
    races->info_ns = SLOW_NS;
    size_t bytes = ask() + 32 * MIB;
    races->asked = other_gives;
    CHECK(cuMemAlloc_v2(&large, bytes) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(races->asked == NULL);
    OK(cuMemAlloc_v2(&large, bytes));
    OK(cuMemFree_v2(large));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "others";
    CUcontext primary = NULL;
    CUdeviceptr first;
    races = dlsym(RTLD_DEFAULT, "reading_races");
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    clock_gettime(CLOCK_MONOTONIC, &begun);
    OK(cuMemAlloc_v2(&first, MIB));
    ask();
    if (!CHECK(races != NULL) || !CHECK(check_file() != NULL))
        return 1;
    races->asking = pthread_self();
    if (strcmp(what, "answers") == 0)
        answers();
    else if (strcmp(what, "limited") == 0)
        limited();
    else
        not_others();
    OK(cuMemFree_v2(first));
    return check_result("reading_race");
}

#endif
