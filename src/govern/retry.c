/* retry.c: see retry.h. It must not wait for the GPU but where that can give the caller memory, nor
 * for our own thread where that waits for the caller. */
#include "govern/retry.h"

#include "base/cancel.h"
#include "base/peer_file.h"
#include "govern/cached_handles.h"
#include "govern/decay_thread.h"
#include "govern/peer_programs.h"
#include "govern/python.h"
#include "govern/reclaim.h"
#include "govern/trim.h"
#include "govern/own_thread.h"
#include "track/callers.h"
#include "track/stream.h"
#include "track/device.h"
#include "track/free_memory.h"
#include "track/process_state.h"
#include "track/thread.h"

/* What the engine keeps for PyTorch, or the driver's pool keeps, would have been enough. */
bool retry_after_oom(uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vm *vm = device ? device_vm(device) : NULL;
    uint64_t given = vm       ? decay_after_oom(device, vm, bytes)
                     : device ? cached_handles_release(device, bytes)
                              : 0;
    return (given < bytes && device && trim_after_oom(device, bytes)) || given > 0;
}

/* A thread of another library waits until our own thread has had PyTorch empty its cache, or has
 * seen that it cannot: no longer than a peer is waited for, whoever holds the allocator's lock. */
static void await_flush(struct device *device, struct reclaim *reclaim) {
    uint64_t start_ns = clock_ns();
    uint64_t end_ns = start_ns + PEER_PATIENCE_NS;
    int cancel = cancel_disable();
    while (atomic_load(&reclaim->library) && clock_ns() < end_ns)
        sleep_ns(MILLISECOND_NS);
    cancel_restore(cancel);
    figure_add(&device->out->stats.flush_waits, 1);
    figure_add(&device->out->stats.flush_wait_ns, clock_ns() - start_ns);
}

/* Not inside PyTorch's allocator, which has just asked about the stream. While this thread has the
 * GIL, which ours needs, the cache is emptied right after: the program may ask once more. */
static bool flush_after_oom(struct device *device, uint64_t bytes) {
    struct reclaim *reclaim = reclaim_of(device);
    uint64_t idle_bytes = device_releasable_bytes(device);
    uint64_t before_bytes = figure_get(&device->out->stats.reclaimed_bytes);
    if (settings_policy().mode != POLICY_FLUSH || device_vm(device) || capture_active() ||
        thread_stream()->asked || !trim_would_do(device, idle_bytes, bytes))
        return false;
    atomic_store(&reclaim->library, 1 + library_calling());
    wakeup(WAKEUP_LOOK);
    if (!python_is_held_here() && !atomic_load(&reclaim->late))
        await_flush(device, reclaim);
    atomic_store(&reclaim->late, atomic_load(&reclaim->library) > 0);
    return figure_get(&device->out->stats.reclaimed_bytes) > before_bytes;
}

/* PyTorch will empty its own cache first, and ask once more. */
static bool will_ask_again(const struct device *device, bool allocator) {
    return allocator && !oom_is_open() && !capture_active() && device_releasable_bytes(device) > 0;
}

bool retry_on_full_card(uint64_t bytes, bool allocator) {
    bool own = retry_after_oom(bytes);
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (device && !allocator && !(own && device_free_bytes(device) >= bytes))
        own = flush_after_oom(device, bytes) || own;
    bool last = device && !will_ask_again(device, allocator);
    return (last && peers_after_oom(device, bytes)) || own;
}

bool retry_beyond_engine(struct device *device, uint64_t bytes) {
    return device && (trim_after_oom(device, bytes) || peers_after_oom(device, bytes));
}
