/* callers.c: see callers.h. It must not use dladdr, which waits for the loader (objects.h); nor
 * libunwind when nobody asked. That is opened with RTLD_LOCAL: were it linked, every C++ library
 * loaded later would throw its exceptions through it. */
#include "track/callers.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"
#include "cuda/objects.h"
#include "cuda/real.h"
#include "store/store.h"

#include <dlfcn.h>

enum { OWN_FRAMES = 8 }; /* more than vramgc has on the stack, from hook_note to capture: 6 */

typedef int (*backtrace_t)(void **frames, int capacity);

static struct {
    struct lock lock; /* for who adds a library, or a stack */
    struct object_range ranges[VRAMGC_MAX_LIBRARIES];
    _Atomic unsigned count; /* with the first, which stands for all that are not known */
    backtrace_t backtrace;  /* NULL: not asked for, or no libunwind */
    unsigned depth;
    uint64_t hashes[VRAMGC_MAX_STACKS];
    uint64_t named; /* stacks whose frames have names */
} self = {.count = 1};
CHILD_OPENS(self.lock);

static unsigned library_at(uintptr_t address) {
    unsigned count = atomic_load_explicit(&self.count, memory_order_acquire);
    for (unsigned i = 1; i < count; i++)
        if (address >= self.ranges[i].start && address < self.ranges[i].end)
            return i;
    return 0;
}

/* Another thread may have been first. */
static unsigned add_library(uintptr_t address, struct object_range range, const char *path) {
    struct vramgc_file *file = store_file();
    LOCKED(&self.lock);
    unsigned found = library_at(address), count = atomic_load(&self.count);
    if (!found && count < VRAMGC_MAX_LIBRARIES) {
        const char *name = text_after_folder(path);
        text_copy(file->libraries[count].name, sizeof file->libraries[count].name,
                  *name ? name : "the program itself");
        __atomic_store_n(&file->library_count, count + 1, __ATOMIC_RELEASE);
        self.ranges[count] = range;
        atomic_store_explicit(&self.count, count + 1, memory_order_release);
        found = count;
    }
    return found;
}

unsigned library_calling(void) {
    const void *caller = thread_state.caller;
    struct object_range range;
    char path[512];
    unsigned found = library_at((uintptr_t)caller);
    bool full = atomic_load_explicit(&self.count, memory_order_relaxed) == VRAMGC_MAX_LIBRARIES;
    if (LIKELY(found) || full || !objects_at(caller, &range, path, sizeof path))
        return found;
    return add_library((uintptr_t)caller, range, path);
}

void library_count(struct device *device, unsigned library, uint64_t bytes, bool more) {
    (more ? gauge_add : gauge_subtract)(&device->out->of_libraries[library], bytes);
}

unsigned library_with_most(const struct device *device) {
    unsigned count = atomic_load_explicit(&self.count, memory_order_acquire);
    uint64_t half = figure_get(&device->out->stats.other_bytes.current) / 2;
    for (unsigned i = 1; i < count; i++)
        if (figure_get(&device->out->of_libraries[i].current) > half)
            return i;
    return 0;
}

/* --- call stacks --- */

void stack_open(unsigned depth) {
    if (!depth)
        return;
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    self.depth = (unsigned)min_u64(depth, VRAMGC_MAX_FRAMES);
    self.backtrace = library ? (backtrace_t)real_dlsym(library, "unw_backtrace") : NULL;
    if (!self.backtrace)
        LOG(LOG_WARN, "VRAMGC_BACKTRACE needs libunwind.so.8, which cannot be opened; no call "
                      "stacks are kept");
}

/* The frames above vramgc's own, at most `depth`. */
static unsigned walk_stack(uint64_t *out) {
    void *frames[VRAMGC_MAX_FRAMES + OWN_FRAMES];
    int count = self.backtrace(frames, (int)self.depth + OWN_FRAMES);
    unsigned kept = 0;
    for (int i = 0; i < count && kept < self.depth; i++)
        if (kept > 0 || !objects_own(frames[i]))
            out[kept++] = (uint64_t)(uintptr_t)frames[i];
    return kept;
}

static uint64_t hash_frames(const uint64_t *frames, unsigned count) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a over whole words */
    for (unsigned i = 0; i < count; i++)
        hash = (hash ^ frames[i]) * 1099511628211u;
    return hash;
}

/* The slot of this stack, old or new; VRAMGC_MAX_STACKS when all are taken. */
static uint64_t stack_slot(const uint64_t *frames, unsigned count) {
    struct vramgc_file *file = store_file();
    uint64_t hash = hash_frames(frames, count), used = file->stack_count;
    for (uint64_t i = 0; i < used; i++)
        if (self.hashes[i] == hash)
            return i;
    if (used == VRAMGC_MAX_STACKS)
        return used;
    struct vramgc_stack *stack = &file->stacks[used];
    for (unsigned i = 0; i < count; i++)
        stack->frames[i].address = frames[i];
    stack->frame_count = count;
    self.hashes[used] = hash;
    __atomic_store_n(&file->stack_count, used + 1, __ATOMIC_RELEASE);
    return used;
}

uint32_t stack_note(uint64_t bytes) {
    uint64_t frames[VRAMGC_MAX_FRAMES];
    if (LIKELY(!self.backtrace))
        return 0;
    unsigned count = walk_stack(frames);
    if (!count)
        return 0;
    lock_take(&self.lock);
    uint64_t slot = stack_slot(frames, count);
    if (slot < VRAMGC_MAX_STACKS) {
        figure_bump(&store_file()->stacks[slot].count, 1);
        figure_bump(&store_file()->stacks[slot].bytes, bytes);
    }
    lock_give(&self.lock);
    if (slot == VRAMGC_MAX_STACKS) {
        figure_add(&store_file()->process.lost_records, 1);
        return 0;
    }
    return (uint32_t)slot + 1;
}

void stack_name(void) {
    struct vramgc_file *file = store_file();
    uint64_t count = __atomic_load_n(&file->stack_count, __ATOMIC_ACQUIRE);
    for (; self.named < count; self.named++) {
        struct vramgc_stack *stack = &file->stacks[self.named];
        for (uint64_t i = 0; i < stack->frame_count; i++)
            objects_describe((const void *)(uintptr_t)stack->frames[i].address,
                             stack->frames[i].text, sizeof stack->frames[i].text);
    }
}
