/* stream.c: the streams that exist. A thread that waits for the GPU must ask all streams of the
 * context in which PyTorch works, whether or not they own a segment: an extension's need not.
 * Streams of other contexts cannot be PyTorch's. It must not call the driver with its lock held. Of
 * captures a count alone would drift: a stream can be ended that was never begun, and a captured
 * one destroyed. */
#include "track/stream.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "cuda/real.h"
#include "store/store.h"
#include "track/device.h"
#include "track/thread.h"
#include "track/recorder.h"

/* So many are told of between two times that the lock is held; PyTorch has 128 (vm/vm_internal.h).
 */
enum { BATCH = 64 };

enum { FLAG_TOLD = 1 };

static struct hashmap_entry first_captured[64];

static struct {
    struct lock lock;
    struct hashmap captured;                /* stream -> device */
    struct hashmap streams;                 /* stream -> context, device */
    bool uncounted[VRAMGC_MAX_DEVICES];     /* there are streams that we cannot follow */
    struct vm *follows[VRAMGC_MAX_DEVICES]; /* who is told of each */
} self = {.captured = HASHMAP_IN(first_captured)};
CHILD_OPENS(self.lock);

/* --- telling the page engine --- */

/* Tells the engine of all streams that it does not know yet. A stream that goes meanwhile is told
 * to be gone afterwards, or makes the engine ask the whole context. */
static void tell_engine(unsigned device) {
    uint64_t streams[BATCH];
    size_t count;
    do {
        count = 0;
        lock_take(&self.lock);
        struct vm *vm = self.follows[device];
        bool uncounted = self.uncounted[device];
        for (EACH_ENTRY(stream, &self.streams)) {
            if (!vm || stream->device != device || stream->context != vm_context(vm) ||
                stream->flags & FLAG_TOLD || count == BATCH)
                continue;
            stream->flags |= FLAG_TOLD;
            streams[count++] = stream->key;
        }
        lock_give(&self.lock);
        if (uncounted && vm) /* any thread's own stream: only the whole context tells */
            vm_stream_add(vm, STREAM_PER_THREAD);
        for (size_t i = 0; i < count; i++)
            vm_stream_add(vm, streams[i]);
    } while (count == BATCH);
}

void stream_follow(unsigned device, struct vm *vm) {
    vm_stream_add(vm, 0); /* the default stream */
    lock_take(&self.lock);
    self.follows[device] = vm;
    lock_give(&self.lock);
    tell_engine(device);
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
            tell_engine(i);
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
        tell_engine((unsigned)index);
}

void stream_made(uint64_t stream) {
    recorder_stream_made();
    made(stream, true);
}

void stream_made_green(void) {
    made(0, false);
}

void stream_gone(uint64_t stream) {
    if (stream <= STREAM_PER_THREAD)
        return; /* a default stream cannot be destroyed */
    LOCKED(&self.lock);
    hashmap_take(&self.streams, stream, NULL);
}

void stream_reset(unsigned device) {
    LOCKED(&self.lock);
    hashmap_drop_device(&self.streams, device);
    self.follows[device] = NULL;
    self.uncounted[device] = false;
}

/* --- captures --- */

static uint64_t key_of(uint64_t stream) {
    if (stream == STREAM_PER_THREAD)
        return (uint64_t)(uintptr_t)&thread_state;
    return stream ? stream : STREAM_LEGACY;
}

/* The lock is held. */
static void publish_captures(void) {
    figure_set(&store_file()->capturing, self.captured.count);
}

bool capture_begin(uint64_t stream) {
    if (atomic_load(&recording_state) == RECORDING_INERT)
        return false;
    int device = 0;
    real_cuCtxGetDevice_t get_device = REAL(cuCtxGetDevice);
    if (!get_device || get_device(&device) != CUDA_SUCCESS)
        device = 0;
    struct hashmap_entry entry = {.key = key_of(stream), .device = (uint16_t)device};
    lock_take(&self.lock);
    bool added =
        !hashmap_find(&self.captured, entry.key) && hashmap_put(&self.captured, &entry, NULL);
    publish_captures();
    lock_give(&self.lock);
    figure_add(&store_file()->process.captures, 1);
    recorder_capture(true);
    return added;
}

void capture_end(uint64_t stream) {
    lock_take(&self.lock);
    hashmap_take(&self.captured, key_of(stream), NULL);
    publish_captures();
    lock_give(&self.lock);
    recorder_capture(false);
}

bool capture_active(void) {
    return figure_get(&store_file()->capturing) > 0;
}

static bool is_in_table(uint64_t stream) {
    LOCKED(&self.lock);
    return hashmap_find(&self.captured, key_of(stream)) != NULL;
}

static bool driver_says_captured(uint64_t stream) {
    real_cuStreamIsCapturing_t ask = REAL(cuStreamIsCapturing);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return ask && ask((CUstream)(uintptr_t)stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Most errors end the capture as well, but not that of a thread which may not end it. */
void capture_end_failed(uint64_t stream) {
    if (is_in_table(stream) && !driver_says_captured(stream))
        capture_end(stream);
}

/* A stream that waits for an event of a captured one is captured too, and in no table. */
bool capture_includes(uint64_t stream) {
    if (LIKELY(!capture_active()) || stream <= STREAM_LEGACY)
        return false;
    return is_in_table(stream) || driver_says_captured(stream);
}

void capture_reset(unsigned device) {
    LOCKED(&self.lock);
    hashmap_drop_device(&self.captured, device);
    publish_captures();
}
