/* libraries.c: see libraries.h. It must not use dladdr, which waits for the loader (objects.h). */
#include "track/libraries.h"

#include "base/lock.h"
#include "base/text.h"
#include "cuda/objects.h"

static struct {
    struct lock lock; /* for who adds one */
    struct object_range ranges[VRAMGC_MAX_LIBRARIES];
    _Atomic unsigned count; /* with the first, which stands for all that are not known */
} self = {.count = 1};
CHILD_OPENS(self.lock);

static unsigned look_up(uintptr_t address) {
    unsigned count = atomic_load_explicit(&self.count, memory_order_acquire);
    for (unsigned i = 1; i < count; i++)
        if (address >= self.ranges[i].start && address < self.ranges[i].end)
            return i;
    return 0;
}

/* Another thread may have been first. */
static unsigned add(uintptr_t address, struct object_range range, const char *path) {
    struct vramgc_file *file = store_file();
    lock_take(&self.lock);
    unsigned found = look_up(address), count = atomic_load(&self.count);
    if (!found && count < VRAMGC_MAX_LIBRARIES) {
        const char *name = text_after_folder(path);
        text_copy(file->libraries[count].name, sizeof file->libraries[count].name,
                  *name ? name : "the program itself");
        __atomic_store_n(&file->library_count, count + 1, __ATOMIC_RELEASE);
        self.ranges[count] = range;
        atomic_store_explicit(&self.count, count + 1, memory_order_release);
        found = count;
    }
    lock_give(&self.lock);
    return found;
}

unsigned library_calling(void) {
    const void *caller = thread_state.caller;
    struct object_range range;
    char path[512];
    unsigned found = look_up((uintptr_t)caller);
    bool full = atomic_load_explicit(&self.count, memory_order_relaxed) == VRAMGC_MAX_LIBRARIES;
    if (LIKELY(found) || full || !objects_at(caller, &range, path, sizeof path))
        return found;
    return add((uintptr_t)caller, range, path);
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
