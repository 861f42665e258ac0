/* thread.c: see thread.h. What was taken for a block that has not come yet is counted in its device
 * as well. */
#include "track/thread.h"

#include "track/device.h"
#include "track/recorder.h"

_Static_assert(REAL_COUNT <= VRAMGC_MAX_HOOKS, "the file has room for every line of hooks.def");

THREAD_LOCAL struct thread_state thread_state;

void thread_block_unpending(uint64_t bytes) {
    struct thread_state *thread = &thread_state;
    struct device *device = device_if_ready(thread->pending.device);
    uint64_t part = min_u64(bytes, thread->pending.bytes);
    if (!part || !device)
        return;
    thread->pending.bytes -= part;
    atomic_fetch_sub(&device->pending_bytes, part);
}

void thread_block_pending(struct device *device, uint64_t bytes) {
    struct thread_state *thread = &thread_state;
    if (thread->pending.device != device_index(device))
        thread_block_unpending(UINT64_MAX);
    thread->pending.device = device_index(device);
    thread->pending.bytes += bytes;
    atomic_fetch_add(&device->pending_bytes, bytes);
}

/* Where a request was refused PyTorch does it to ask again, and our own thread to give memory back.
 * In other modes answering a request with out of memory is our means to the same. */
void thread_segment_freed(struct device *device) {
    struct thread_state *thread = &thread_state;
    if (thread->is_ours || oom_is_open())
        return;
    if (UNLIKELY(recorder_is_on()) && !thread->since_block.soft_oom &&
        !thread->since_block.recorded)
        recorder_note(device, VRAMGC_NOTE_EMPTIED, 0);
    thread->since_block.recorded = true;
    if (!device_pages(device))
        return;
    /* As who has seen the error does: nothing went on. */
    thread->oom.told.sequence = 0;
    if (thread->since_block.emptied)
        return;
    thread->since_block.emptied = true;
    figure_add(&store_file()->process.cache_empties, 1);
}

/* --- calls --- */

void call_made(enum real_id id) {
    figure_add(&store_file()->hooks[id].calls, 1);
}

void call_failed(enum real_id id) {
    figure_add(&store_file()->hooks[id].failed, 1);
}

void call_unaccounted(void) {
    if (recording_is_on())
        figure_add(&store_file()->process.unaccounted_calls, 1);
}

void call_reached_driver(void) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (device)
        figure_add(&device->out->stats.driver_calls, 1);
}
