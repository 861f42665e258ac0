/* check.h: what the tests of the hooks share: a live view of the statistics file, and
 * expectations about how its byte counts change. A test counts its failures and goes on. */
#ifndef CHECK_H
#define CHECK_H

#include "vramgc_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Changes in bytes of the gauges of one device since the latest watch(). Every gauge not named in
 * an EXPECT must be unchanged: that is how a byte counted twice, or in a wrong class, shows. What
 * known libraries hold changes by as much as `other`. */
struct change {
    int64_t held, other, libraries, pool, managed, pinned, rounded, imported, graph, address;
};

/* The statistics file of this process, mapped read-only; NULL while there is none. The path is
 * that of VRAMGC_OUT, which must be a plain path here. */
const struct vramgc_file *check_file(void);

/* From now on EXPECT compares with this moment. device: whose gauges. */
void watch(unsigned device);

void check_change(const char *file, int line, struct change expected);
bool check_that(const char *file, int line, bool holds, const char *text);

/* What pools have kept by the books: it is held until vramgc's own thread looks at the pool. For a
 * process without segments of PyTorch's. */
int64_t kept_in_pools(void);

/* What an allocation of so many bytes from a pool adds to what is held. */
int64_t new_in_pool(size_t bytes);

/* How often the hook of that symbol was called. */
uint64_t calls_of(const char *symbol);

/* Prints how many checks there were; the exit status of a test. */
int check_result(const char *name);

#define EXPECT(...) check_change(__FILE__, __LINE__, (struct change){__VA_ARGS__})
#define UNCHANGED() check_change(__FILE__, __LINE__, (struct change){0})
#define CHECK(...)  check_that(__FILE__, __LINE__, (__VA_ARGS__), #__VA_ARGS__)

/* A CUDA call that must succeed; 0 is success in both APIs. */
#define OK(...) check_that(__FILE__, __LINE__, (__VA_ARGS__) == 0, #__VA_ARGS__)

#endif
