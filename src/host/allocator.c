/* allocator.c: see allocator.h. It must never call a function of another allocator than the one
 * that has the program's memory: a process may have several, of which the others serve a library
 * only. */
#include "host/allocator.h"

#include "base/base.h"
#include "base/text.h"
#include "cuda/objects.h"
#include "cuda/real.h"

#include <dlfcn.h>

/* Public interfaces: malloc.h of glibc, gperftools' malloc_extension_c.h, jemalloc(3),
 * mimalloc.h. */
typedef int (*malloc_trim_t)(size_t);
typedef struct {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
} (*mallinfo2_t)(void); /* glibc's from 2.33 on */
typedef void (*release_to_system_t)(size_t);
typedef int (*get_property_t)(const char *, size_t *);
typedef int (*mallctl_t)(const char *, void *, size_t *, void *, size_t);
typedef void (*mi_collect_t)(bool);

/* To have so much mapped anew takes 22 ms (BYTES_PER_NS): nobody notices that. */
#define AT_ONCE_BYTES (64 * MEBIBYTE)

static struct {
    bool looked;
    const struct kind *kind;
    void *call, *statistics;
} self;

static bool trim_glibc(uint64_t until_ns) {
    (void)until_ns;
    ((malloc_trim_t)self.call)(0);
    return true;
}

static struct host_has heap_of_glibc(void) {
    if (!self.statistics)
        return (struct host_has){0};
    __auto_type info = ((mallinfo2_t)self.statistics)();
    return (struct host_has){0, info.uordblks + info.hblkhd, info.fordblks};
}

/* Its one lock is held while it releases: so much at a time. A call does nothing where an earlier
 * one released more than it was asked for. */
static bool release_tcmalloc(uint64_t until_ns) {
    get_property_t get_property = (get_property_t)self.statistics;
    size_t left = 1;
    while (left && clock_ns() < until_ns) {
        ((release_to_system_t)self.call)(AT_ONCE_BYTES);
        if (!get_property || !get_property("tcmalloc.pageheap_free_bytes", &left))
            return true;
    }
    return !left;
}

static struct host_has heap_of_tcmalloc(void) {
    get_property_t get_property = (get_property_t)self.statistics;
    size_t used = 0, kept = 0;
    bool told = get_property && get_property("generic.current_allocated_bytes", &used) &&
                get_property("tcmalloc.pageheap_free_bytes", &kept);
    return told ? (struct host_has){0, used, kept} : (struct host_has){0};
}

static bool purge_jemalloc(uint64_t until_ns) {
    mallctl_t mallctl = (mallctl_t)self.call;
    unsigned count = 0;
    size_t bytes = sizeof count;
    if (mallctl("arenas.narenas", &count, &bytes, NULL, 0) != 0)
        return true;
    for (unsigned i = 0; i < count; i++) {
        TEXT_OVER(text, name, 32);
        text_format(&text, "arena.%u.purge", i);
        mallctl(name, NULL, NULL, NULL, 0);
        if (clock_ns() > until_ns && i + 1 < count)
            return false;
    }
    return true;
}

/* Its figures are those of the latest epoch: a new one begins first. */
static struct host_has heap_of_jemalloc(void) {
    mallctl_t mallctl = (mallctl_t)self.call;
    uint64_t epoch = 1;
    size_t used = 0, active = 0, resident = 0, bytes = sizeof used;
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    mallctl("stats.allocated", &used, &bytes, NULL, 0);
    mallctl("stats.active", &active, &bytes, NULL, 0);
    mallctl("stats.resident", &resident, &bytes, NULL, 0);
    return (struct host_has){0, used, minus_u64(resident, active)}; /* with some of its own */
}

static bool collect_mimalloc(uint64_t until_ns) {
    (void)until_ns;
    ((mi_collect_t)self.call)(true);
    return true;
}

static const struct kind {
    const char *name, *symbol, *statistics;
    bool (*release)(uint64_t until_ns);
    struct host_has (*heap)(void);
} kinds[] = {
    {"tcmalloc", "MallocExtension_ReleaseToSystem", "MallocExtension_GetNumericProperty",
     release_tcmalloc, heap_of_tcmalloc},
    {"mimalloc", "mi_collect", NULL, collect_mimalloc, NULL},
    {"jemalloc", "mallctl", NULL, purge_jemalloc, heap_of_jemalloc},
    {"jemalloc", "je_mallctl", NULL, purge_jemalloc, heap_of_jemalloc},
    /* tcmalloc has one, too, which does nothing */
    {"glibc", "malloc_trim", "mallinfo2", trim_glibc, heap_of_glibc},
};

/* The symbol's address if it lies in that object. */
static void *inside(struct object_range range, const char *symbol) {
    void *p = real_dlsym(RTLD_DEFAULT, symbol);
    return (uintptr_t)p >= range.start && (uintptr_t)p < range.end ? p : NULL;
}

static void look_for_allocator(void) {
    struct object_range range;
    char path[256];
    if (!objects_at(real_dlsym(RTLD_DEFAULT, "malloc"), &range, path, sizeof path))
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(kinds) && !self.kind; i++)
        if ((self.call = inside(range, kinds[i].symbol)))
            self.kind = &kinds[i];
    if (self.kind && self.kind->statistics)
        self.statistics = inside(range, self.kind->statistics);
}

const char *host_allocator_name(void) {
    if (!self.looked)
        look_for_allocator();
    self.looked = true;
    return self.kind ? self.kind->name : NULL;
}

const char *host_allocator_call(void) {
    return host_allocator_name() ? self.kind->symbol : NULL;
}

struct host_has host_allocator_has(void) {
    return host_allocator_name() && self.kind->heap ? self.kind->heap() : (struct host_has){0};
}

bool host_allocator_release(uint64_t budget_ns) {
    return !host_allocator_name() || self.kind->release(clock_ns() + budget_ns);
}
