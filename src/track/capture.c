/* capture.c: which streams are captured. A count alone would drift: a stream can be ended that was
 * never begun, and a captured one can be destroyed. It must not ask the driver about a stream but
 * while something is captured. */
#include "track/capture.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "cuda/real.h"
#include "store/store.h"
#include "track/recording.h"
#include "track/thread.h"

static struct hashmap_entry first_streams[64];

static struct {
    struct lock lock;
    struct hashmap streams; /* stream -> device */
} self = {.streams = HASHMAP_IN(first_streams)};
CHILD_OPENS(self.lock);

static uint64_t key_of(uint64_t stream) {
    if (stream == STREAM_PER_THREAD)
        return (uint64_t)(uintptr_t)&thread_state;
    return stream ? stream : STREAM_LEGACY;
}

/* The lock is held. */
static void publish(void) {
    figure_set(&store_file()->capturing, self.streams.count);
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
        !hashmap_find(&self.streams, entry.key) && hashmap_put(&self.streams, &entry, NULL);
    publish();
    lock_give(&self.lock);
    figure_add(&store_file()->process.captures, 1);
    return added;
}

void capture_end(uint64_t stream) {
    lock_take(&self.lock);
    hashmap_take(&self.streams, key_of(stream), NULL);
    publish();
    lock_give(&self.lock);
}

bool capture_active(void) {
    return figure_get(&store_file()->capturing) > 0;
}

static bool is_in_table(uint64_t stream) {
    lock_take(&self.lock);
    bool found = hashmap_find(&self.streams, key_of(stream)) != NULL;
    lock_give(&self.lock);
    return found;
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
    lock_take(&self.lock);
    hashmap_drop_device(&self.streams, device);
    publish();
    lock_give(&self.lock);
}
