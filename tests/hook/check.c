/* check.c: see check.h. It must not call any CUDA function: what it looks at must come from the
 * test alone. */
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    const struct vramgc_file *file;
    struct change before;
    unsigned device;
    _Atomic unsigned long checks, failures; /* any thread checks */
} self;

const struct vramgc_file *check_file(void) {
    const char *path = getenv("VRAMGC_OUT");
    int fd = self.file || !path ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        void *p = mmap(NULL, sizeof *self.file, PROT_READ, MAP_SHARED, fd, 0);
        self.file = p == MAP_FAILED ? NULL : p;
        close(fd);
    }
    return self.file;
}

static int64_t gauge(const struct vramgc_gauge *gauge) {
    return (int64_t)__atomic_load_n(&gauge->current, __ATOMIC_RELAXED);
}

/* What libraries hold that are known. */
static int64_t held_by_libraries(const struct vramgc_device *device) {
    int64_t sum = 0;
    for (size_t i = 1; i < VRAMGC_MAX_LIBRARIES; i++)
        sum += gauge(&device->of_libraries[i]);
    return sum;
}

static struct change now(void) {
    const struct vramgc_file *file = check_file();
    if (!file)
        return (struct change){0};
    const struct vramgc_device_stats *stats = &file->devices[self.device].stats;
    return (struct change){
        .held = gauge(&stats->held_bytes),
        .other = gauge(&stats->other_bytes),
        .libraries = held_by_libraries(&file->devices[self.device]),
        .pool = gauge(&stats->pool_bytes),
        .managed = gauge(&stats->managed_bytes),
        .pinned = gauge(&stats->pinned_bytes),
        .rounded = gauge(&stats->pinned_rounded_bytes),
        .imported = gauge(&stats->imported_bytes),
        .graph = gauge(&stats->graph_bytes),
        .address = gauge(&stats->address_bytes),
    };
}

void watch(unsigned device) {
    self.device = device;
    self.before = now();
}

bool check_that(const char *file, int line, bool holds, const char *text) {
    self.checks++;
    if (!holds) {
        self.failures++;
        printf("FAILED %s:%d: %s\n", file, line, text);
        fflush(stdout);
    }
    return holds;
}

static void compare(const char *file, int line, const char *name, int64_t before, int64_t after,
                    int64_t expected) {
    char text[160];
    snprintf(text, sizeof text, "%s_bytes changed by %lld, expected %lld", name,
             (long long)(after - before), (long long)expected);
    check_that(file, line, after - before == expected, text);
}

void check_change(const char *file, int line, struct change expected) {
    struct change is = now();
#define COMPARE(name) compare(file, line, #name, self.before.name, is.name, expected.name)
    COMPARE(held);
    COMPARE(other);
    expected.libraries = expected.other; /* all of it has a name */
    COMPARE(libraries);
    COMPARE(pool);
    COMPARE(managed);
    COMPARE(pinned);
    COMPARE(rounded);
    COMPARE(imported);
    COMPARE(graph);
    COMPARE(address);
#undef COMPARE
}

int64_t kept_in_pools(void) {
    struct change books = now();
    return books.held - books.other - books.pool;
}

int64_t new_in_pool(size_t bytes) {
    int64_t kept = kept_in_pools();
    return (int64_t)bytes > kept ? (int64_t)bytes - kept : 0;
}

uint64_t calls_of(const char *symbol) {
    const struct vramgc_file *file = check_file();
    for (uint64_t i = 0; file && i < file->hook_count; i++)
        if (strncmp(file->hooks[i].name, symbol, sizeof file->hooks[i].name - 1) == 0)
            return __atomic_load_n(&file->hooks[i].calls, __ATOMIC_RELAXED);
    return 0;
}

int check_result(const char *name) {
    printf("%s: %lu checks, %lu failed\n", name, self.checks, self.failures);
    return self.failures || !self.checks;
}
