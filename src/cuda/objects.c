/* objects.c: see objects.h. It must not use dladdr or dlopen on the way of a hook: they wait for
 * the loader's lock, whose holder may be waiting for PyTorch's allocator. */
#include "cuda/objects.h"
#include "base/base.h"
#include "base/lock.h"
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
    /* Held while a thread of ours reads the loader's list. glibc's own lock of that list stays
     * taken in a forked child where another thread had it, so no thread of ours may have it while
     * one forks. */
    struct lock in_list;
    atomic_bool frozen;
    _Atomic uintptr_t allocator_start, allocator_end;
    _Atomic unsigned long long changes;
    _Atomic unsigned long long loaded, unloaded; /* as last read */
} self;

/* The first byte of libvramgc.so and the one after its last, by the linker. */
extern const char own_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char own_end[] __asm__("_end") __attribute__((visibility("hidden")));

typedef int visitor(struct dl_phdr_info *, size_t, void *);

/* False: the list may not be read any more. */
static bool iterate(visitor *visit, void *context) {
    if (atomic_load(&self.frozen))
        return false;
    LOCKED(&self.in_list);
    dl_iterate_phdr(visit, context);
    return true;
}

void objects_before_fork(void) {
    lock_take(&self.in_list);
}

void objects_after_fork(void) {
    lock_give(&self.in_list);
}

void objects_freeze(void) {
    atomic_store(&self.frozen, true);
}

static struct object_range range_of_object(const struct dl_phdr_info *info) {
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
    return strncmp(text_after_folder(path), stem, strlen(stem)) == 0;
}

static int visit_named(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)size;
    if (search->changes == info->dlpi_adds)
        return 1; /* nothing was loaded since */
    search->changes_now = info->dlpi_adds;
    struct object_range range = range_of_object(info);
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
    iterate(visit_named, &search);
    return search.found;
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    atomic_store_explicit(&self.loaded, info->dlpi_adds, memory_order_relaxed);
    atomic_store_explicit(&self.unloaded, info->dlpi_subs, memory_order_relaxed);
    return 1;
}

unsigned long long objects_changes(void) {
    iterate(read_counts, NULL);
    return atomic_load_explicit(&self.loaded, memory_order_relaxed);
}

unsigned long long objects_unloads(void) {
    iterate(read_counts, NULL);
    return atomic_load_explicit(&self.unloaded, memory_order_relaxed);
}

bool objects_loaded(uintptr_t address) {
    struct search search = {.address = (const void *)address};
    return !iterate(visit_named, &search) || search.found;
}

/* Places in an object that hold the address of one of our functions: one for each hook that it
 * uses, and there are fewer hooks (hooks.def). */
enum { MOST_POINTERS = 256 };

struct pointers {
    uintptr_t known[MOST_POINTERS];
    size_t count;
};

/* Takes out of the list what is loaded. */
static int visit_known(struct dl_phdr_info *info, size_t size, void *context) {
    struct pointers *pointers = context;
    struct object_range range = range_of_object(info);
    (void)size;
    for (size_t i = 0; i < pointers->count; i++)
        if (pointers->known[i] >= range.start && pointers->known[i] < range.end)
            pointers->known[i] = 0;
    return 0;
}

bool objects_drop_unloaded(_Atomic(void *) *pointers, size_t count) {
    struct pointers list = {.count = count};
    for (size_t i = 0; i < count; i++)
        list.known[i] = (uintptr_t)atomic_load_explicit(&pointers[i], memory_order_acquire);
    bool read = iterate(visit_known, &list), dropped = false;
    for (size_t i = 0; read && i < count; i++) {
        void *gone = (void *)list.known[i];
        if (gone && atomic_compare_exchange_strong(&pointers[i], &gone, NULL))
            dropped = true;
    }
    return dropped;
}

void objects_pin(const void *address) {
    char path[512];
    struct object_range range;
    if (objects_at(address, &range, path, sizeof path) && *path)
        dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

struct object_range objects_range(const char *stem) {
    struct search search = {.stem = stem};
    iterate(visit_named, &search);
    return search.range;
}

bool objects_at(const void *address, struct object_range *range, char *path, size_t capacity) {
    struct search search = {.address = address, .path = path, .capacity = capacity};
    if (address)
        iterate(visit_named, &search);
    *range = search.range;
    return search.found;
}

bool objects_inside(const void *address, const char *stem) {
    char path[512];
    struct object_range range;
    return objects_at(address, &range, path, sizeof path) && has_stem(path, stem);
}

struct linking {
    uintptr_t address;
    const char *stem;
    const char *needed; /* the name, in the object's own string table */
    struct object_link *link;
    bool found;
};

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info) {
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

/* The name of kind `tag` (DT_NEEDED, DT_SONAME) that begins with stem. The loader has made the
 * table's address absolute in most objects. */
static const char *dynamic_name(const struct dl_phdr_info *info, ElfW(Sxword) tag,
                                const char *stem) {
    const ElfW(Dyn) *dynamic = dynamic_of(info), *d;
    uintptr_t strings = 0;
    for (d = dynamic; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            strings = d->d_un.d_ptr;
    if (strings && strings < info->dlpi_addr)
        strings += info->dlpi_addr;
    for (d = dynamic; strings && d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag && has_stem((const char *)(strings + d->d_un.d_val), stem))
            return (const char *)(strings + d->d_un.d_val);
    return NULL;
}

static int visit_caller(struct dl_phdr_info *info, size_t size, void *context) {
    struct linking *linking = context;
    struct object_range range = range_of_object(info);
    (void)size;
    if (linking->address < range.start || linking->address >= range.end)
        return 0;
    linking->found = true;
    linking->link->object = range;
    linking->needed = dynamic_name(info, DT_NEEDED, linking->stem);
    return 1;
}

static int visit_needed(struct dl_phdr_info *info, size_t size, void *context) {
    struct linking *linking = context;
    const char *name = dynamic_name(info, DT_SONAME, linking->stem);
    (void)size;
    if (!name || strcmp(name, linking->needed) != 0)
        return 0;
    linking->link->needed = range_of_object(info);
    text_copy(linking->link->needed_path, sizeof linking->link->needed_path, info->dlpi_name);
    return 1;
}

bool objects_link(const void *address, const char *stem, struct object_link *link) {
    struct linking linking = {.address = (uintptr_t)address, .stem = stem, .link = link};
    iterate(visit_caller, &linking);
    if (linking.needed)
        iterate(visit_needed, &linking);
    return linking.found;
}

bool objects_own(const void *address) {
    return (const char *)address >= own_start && (const char *)address < own_end;
}

/* Programs without PyTorch ask again and again: then only the loader's counter is read. */
static uintptr_t find_allocator(void) {
    struct search search = {.stem = "libc10_cuda.so", .changes = atomic_load(&self.changes)};
    iterate(visit_named, &search);
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
    const char *file = text_after_folder(info.dli_fname);
    uintptr_t p = (uintptr_t)address;
    if (info.dli_sname)
        text_format(&text, "%.48s+0x%lx (%.24s)", info.dli_sname,
                    (unsigned long)(p - (uintptr_t)info.dli_saddr), file);
    else
        text_format(&text, "%.48s+0x%lx", file, (unsigned long)(p - (uintptr_t)info.dli_fbase));
}
