/* base.h: the few words every module uses. Of base/ always, for the preloaded library has all of it
 * and the command some of its files (src/cli/cli.mk): it calls nothing but libc, allocates nothing
 * from the host's heap, and believes no file that another user could have written. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof(a)[0])
#define LIKELY(x)       __builtin_expect(!!(x), 1)
#define UNLIKELY(x)     __builtin_expect(!!(x), 0)
#define KIBIBYTE        ((uint64_t)1 << 10)
#define MEBIBYTE        ((uint64_t)1 << 20)
#define SECOND_NS       ((uint64_t)1000000000)
#define MILLISECOND_NS  ((uint64_t)1000000)

/* In what pieces the driver maps memory, and in what idle memory is counted. */
#define PAGE_BYTES ((uint64_t)2 << 20)

/* In the place of a stream's handle: no stream, or none that can be known. */
#define STREAM_NONE UINT64_MAX

/* Thread-local, reached without a function call. A preloaded object may use this model because it
 * is there when the program starts. */
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* Behind a variable: where its block is left, by whatever way, the function is called with its
 * address. */
#define AT_END(function) __attribute__((cleanup(function), unused))

static inline uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* a - b, and 0 where that would be negative. */
static inline uint64_t minus_u64(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static inline uint64_t at_least_0(int64_t bytes) {
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Nanoseconds of that clock of clock_gettime(). */
static inline uint64_t clock_read_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* A test may add so much to the clock (clock.c); 0 in a program that is no test. */
extern const _Atomic uint64_t *clock_ahead_ns;

/* Of CLOCK_MONOTONIC. */
static inline uint64_t clock_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC) +
           atomic_load_explicit(clock_ahead_ns, memory_order_relaxed);
}

static inline void sleep_ns(uint64_t ns) {
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)},
        NULL);
}

/* Zeroed pages of our own, never from malloc; NULL when there are none. They cost memory only
 * where they are touched. */
static inline void *memory_map(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static inline void memory_unmap(void *p, size_t bytes) {
    if (p)
        munmap(p, bytes);
}

/* Moves them, NULL at first, to more pages. NULL: there are none, and the old ones stay. */
static inline void *memory_grow(void *old, size_t old_bytes, size_t bytes) {
    void *larger = memory_map(bytes);
    if (larger && old)
        memcpy(larger, old, old_bytes);
    if (larger)
        memory_unmap(old, old_bytes);
    return larger;
}
