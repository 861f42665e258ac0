/* objects.c: see objects.h. It must not use dladdr or dlopen on the way of a hook: they wait for
 * the loader's lock, whose holder may be waiting for PyTorch's allocator. */
#include "real/objects.h"
#include "base/base.h"
#include "base/text.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

struct search {
    const char *stem;
    const void *address; /* instead of stem, when not NULL */
    unsigned nth;
    struct object_range range;
    char *path;
    size_t capacity;
    bool found;
    unsigned long long changes;     /* objects ever loaded when it was last looked for; 0: never */
    unsigned long long changes_now; /* and now */
};

static struct {
    _Atomic uintptr_t own_start, own_end;
    _Atomic uintptr_t allocator_start, allocator_end;
    _Atomic unsigned long long changes;
} self;

static struct object_range range_of(const struct dl_phdr_info *info) {
    struct object_range range = {UINTPTR_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = start + info->dlpi_phdr[i].p_memsz;
        range.start = start < range.start ? start : range.start;
        range.end = end > range.end ? end : range.end;
    }
    return range;
}

static bool has_stem(const char *path, const char *stem) {
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, stem, strlen(stem)) == 0;
}

static int visit(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)size;
    if (search->changes == info->dlpi_adds)
        return 1; /* nothing was loaded since */
    search->changes_now = info->dlpi_adds;
    struct object_range range = range_of(info);
    uintptr_t address = (uintptr_t)search->address;
    if (address ? address < range.start || address >= range.end
                : !has_stem(info->dlpi_name, search->stem))
        return 0;
    if (search->nth-- > 0)
        return 0;
    search->range = range;
    search->found = true;
    if (search->path)
        text_copy(search->path, search->capacity, info->dlpi_name);
    return 1;
}

bool objects_path(const char *stem, unsigned nth, char *path, size_t capacity) {
    struct search search = {.stem = stem, .nth = nth, .path = path, .capacity = capacity};
    dl_iterate_phdr(visit, &search);
    return search.found;
}

static int read_changes(struct dl_phdr_info *info, size_t size, void *context) {
    unsigned long long *changes = context;
    (void)size;
    *changes = info->dlpi_adds;
    return 1;
}

unsigned long long objects_changes(void) {
    unsigned long long changes = 0;
    dl_iterate_phdr(read_changes, &changes);
    return changes;
}

struct object_range objects_range(const char *stem) {
    struct search search = {.stem = stem};
    dl_iterate_phdr(visit, &search);
    return search.range;
}

bool objects_own(const void *address) {
    if (!atomic_load_explicit(&self.own_end, memory_order_acquire)) {
        struct search search = {.address = (const void *)(uintptr_t)objects_own};
        dl_iterate_phdr(visit, &search);
        atomic_store_explicit(&self.own_start, search.range.start, memory_order_relaxed);
        atomic_store_explicit(&self.own_end, search.range.end, memory_order_release);
    }
    uintptr_t p = (uintptr_t)address;
    return p >= atomic_load_explicit(&self.own_start, memory_order_relaxed) &&
           p < atomic_load_explicit(&self.own_end, memory_order_relaxed);
}

/* Programs without PyTorch ask again and again: then only the loader's counter is read. */
static uintptr_t find_allocator(void) {
    struct search search = {.stem = "libc10_cuda.so", .changes = atomic_load(&self.changes)};
    dl_iterate_phdr(visit, &search);
    if (search.found) {
        atomic_store_explicit(&self.allocator_start, search.range.start, memory_order_relaxed);
        atomic_store_explicit(&self.allocator_end, search.range.end, memory_order_release);
    } else if (search.changes_now) {
        atomic_store(&self.changes, search.changes_now);
    }
    return search.range.end;
}

bool objects_in_allocator(const void *address) {
    uintptr_t end = atomic_load_explicit(&self.allocator_end, memory_order_acquire);
    if (UNLIKELY(!end))
        end = find_allocator();
    uintptr_t p = (uintptr_t)address;
    return p < end && p >= atomic_load_explicit(&self.allocator_start, memory_order_relaxed);
}

void objects_describe(const void *address, char *out, size_t capacity) {
    struct text text = text_in(out, capacity);
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) {
        text_format(&text, "%p", address);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash ? slash + 1 : info.dli_fname;
    uintptr_t p = (uintptr_t)address;
    if (info.dli_sname)
        text_format(&text, "%.48s+0x%lx (%.24s)", info.dli_sname,
                    (unsigned long)(p - (uintptr_t)info.dli_saddr), file);
    else
        text_format(&text, "%.48s+0x%lx", file, (unsigned long)(p - (uintptr_t)info.dli_fbase));
}
