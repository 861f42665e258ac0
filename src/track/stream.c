/* stream.c: the streams that exist. A thread that waits for the GPU must ask all streams of the
 * context in which PyTorch works, whether or not they own a segment: an extension's need not.
 * Streams of other contexts cannot be PyTorch's. It must not call the driver with its lock held. */
#include "track/stream.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "track/recording.h"

/* So many are told of between two times that the lock is held; PyTorch has 128 (vm/vm_internal.h).
 */
enum { BATCH = 64 };

enum { FLAG_TOLD = 1 };

static struct {
    struct lock lock;
    struct hashmap streams;                 /* stream -> context, device */
    bool uncounted[VRAMGC_MAX_DEVICES];     /* there are streams that we cannot follow */
    struct vm *follows[VRAMGC_MAX_DEVICES]; /* who is told of each */
} self;
CHILD_OPENS(self.lock);

/* --- telling the page engine --- */

struct batch {
    unsigned device;
    struct vm *vm;
    uint64_t context;
    uint64_t streams[BATCH];
    size_t count;
};

/* The entry is marked in place; the sweep removes none. */
static bool collect(const struct hashmap_entry *entry, void *context) {
    struct batch *batch = context;
    if (entry->device == batch->device && entry->context == batch->context &&
        !(entry->flags & FLAG_TOLD) && batch->count < BATCH) {
        ((struct hashmap_entry *)entry)->flags |= FLAG_TOLD;
        batch->streams[batch->count++] = entry->key;
    }
    return false;
}

/* Tells the engine of all streams that it does not know yet. A stream that goes meanwhile is told
 * to be gone afterwards, or makes the engine ask the whole context. */
static void tell(unsigned device) {
    struct batch batch = {.device = device};
    do {
        batch.count = 0;
        lock_take(&self.lock);
        batch.vm = self.follows[device];
        batch.context = batch.vm ? vm_context(batch.vm) : 0;
        bool uncounted = self.uncounted[device];
        if (batch.vm)
            hashmap_sweep(&self.streams, collect, &batch);
        lock_give(&self.lock);
        if (uncounted && batch.vm) /* any thread's own stream: only the whole context tells */
            vm_stream_add(batch.vm, STREAM_PER_THREAD);
        for (size_t i = 0; i < batch.count; i++)
            vm_stream_add(batch.vm, batch.streams[i]);
    } while (batch.count == BATCH);
}

void stream_follow(unsigned device, struct vm *vm) {
    vm_stream_add(vm, 0); /* the default stream */
    lock_take(&self.lock);
    self.follows[device] = vm;
    lock_give(&self.lock);
    tell(device);
}

/* --- what the hooks say --- */

static bool current(CUcontext *context, int *device) {
    real_cuCtxGetDevice_t get_device = REAL(cuCtxGetDevice);
    return real_current_context(context) && *context && get_device &&
           get_device(device) == CUDA_SUCCESS && *device >= 0 && *device < VRAMGC_MAX_DEVICES;
}

/* It may be any device's: the whole context is asked from now on. */
static void lost(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        lock_take(&self.lock);
        self.uncounted[i] = true;
        bool followed = self.follows[i] != NULL;
        lock_give(&self.lock);
        if (followed && recording_is_on())
            tell(i);
    }
}

static void made(uint64_t stream, bool followable) {
    CUcontext context = NULL;
    int index = 0;
    if (atomic_load(&recording_state) == RECORDING_INERT)
        return;
    if (!current(&context, &index)) {
        lost();
        return;
    }
    struct hashmap_entry entry = {
        .key = stream, .context = (uint64_t)(uintptr_t)context, .device = (uint16_t)index};
    lock_take(&self.lock);
    if (!followable || !hashmap_put(&self.streams, &entry, NULL))
        self.uncounted[index] = true;
    struct vm *vm = self.follows[index];
    bool followed = vm && (vm_context(vm) == entry.context || !followable);
    lock_give(&self.lock);
    if (followed && recording_is_on())
        tell((unsigned)index);
}

void stream_made(uint64_t stream) {
    made(stream, true);
}

void stream_made_green(void) {
    made(0, false);
}

void stream_gone(uint64_t stream) {
    if (stream <= STREAM_PER_THREAD)
        return; /* a default stream cannot be destroyed */
    lock_take(&self.lock);
    hashmap_take(&self.streams, stream, NULL);
    lock_give(&self.lock);
}

void stream_reset(unsigned device) {
    lock_take(&self.lock);
    hashmap_drop_device(&self.streams, device);
    self.follows[device] = NULL;
    self.uncounted[device] = false;
    lock_give(&self.lock);
}
