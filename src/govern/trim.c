/* trim.c: see trim.h. It must not wait for the GPU while a stream is captured, for that would end
 * the capture, nor in a thread of the program unless that was refused memory, or drops weights,
 * for which comfy-aimdo waits, too. */
#include "govern/trim.h"

#include "cuda/objects.h"
#include "govern/reclaim.h"
#include "track/free_memory.h"
#include "track/mempool.h"
#include "track/process_state.h"
#include "track/stream.h"
#include "track/thread.h"

/* Waiting holds up the calling thread only. */
static bool trim(CUmemoryPool pool, uint64_t keep_bytes) {
    real_cuMemPoolTrimTo_t trim_to = REAL(cuMemPoolTrimTo);
    real_cuCtxSynchronize_t synchronize = REAL(cuCtxSynchronize);
    return !capture_active() && trim_to && synchronize && synchronize() == CUDA_SUCCESS &&
           trim_to(pool, keep_bytes) == CUDA_SUCCESS;
}

/* A job comes back to what it needed a moment ago: a pool that was trimmed to less would grow
 * again, by pieces of its own, and hold more than without us. */
static uint64_t needed(struct device *device, uint64_t now_ns) {
    return mempool_needed(device, now_ns, settings_policy().cooldown_ns);
}

uint64_t trim_idle_bytes(struct device *device, uint64_t now_ns) {
    if (!mempool_in_use(device))
        return 0;
    uint64_t idle_bytes = mempool_look(device), used_bytes = mempool_used(device);
    return minus_u64(idle_bytes, minus_u64(needed(device, now_ns), used_bytes));
}

/* The device's context is current. What the pool keeps may lie beside what is live, so that none of
 * it can go: that was no reclaim. */
static bool trim_and_tell(struct device *device, struct vramgc_action *action) {
    struct mempool_idle idle = mempool_idle(device);
    uint64_t start = clock_ns();
    bool is_tick = action->reason == VRAMGC_REASON_THRESHOLD && thread_is_ours();
    uint64_t keep_bytes = is_tick ? needed(device, start) : 0;
    action->kind = VRAMGC_ACTION_TRIM;
    reclaim_credit(action, 0, idle.idle_bytes);
    if (!action->observed) {
        if (!trim(idle.pool, keep_bytes))
            return false;
        struct mempool_idle left = mempool_account(device);
        uint64_t returned = left.pool ? minus_u64(idle.reserved_bytes, left.reserved_bytes) : 0;
        reclaim_credit(action, left.idle_bytes, returned);
    }
    action->took_ns = clock_ns() - start;
    if (action->observed || action->after_bytes < action->before_bytes)
        reclaim_conclude(device, action);
    return true;
}

bool trim_mempool(struct device *device, struct vramgc_action action) {
    return (action.observed || reclaim_enter(device)) && trim_and_tell(device, &action);
}

bool trim_would_do(struct device *device, uint64_t idle_bytes, uint64_t bytes) {
    return idle_bytes && device_read_memory(device) &&
           device_free_bytes(device) + idle_bytes >= bytes;
}

static bool trim_for(struct device *device, uint64_t bytes, uint32_t reason) {
    enum policy_mode mode = settings_policy().mode;
    if (mode == POLICY_OFF || capture_active() || !mempool_in_use(device) ||
        !trim_would_do(device, mempool_idle(device).idle_bytes, bytes))
        return false;
    struct vramgc_action action = {
        .device = device_index(device),
        .reason = reason,
        .observed = mode == POLICY_OBSERVE,
        .request_bytes = bytes,
        .used_bytes = device_used_bytes(device),
    };
    return trim_and_tell(device, &action) && !action.observed;
}

bool trim_after_oom(struct device *device, uint64_t bytes) {
    return trim_for(device, bytes, VRAMGC_REASON_REFUSED);
}

void trim_before_weights(const void *caller) {
    struct policy_settings settings = settings_policy();
    struct device *device = recording_is_on() ? device_current() : NULL;
    uint64_t idle = device ? __atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED) : 0;
    if (idle > settings.min_gain_bytes && settings.mode == POLICY_ACT &&
        !reclaim_is_below_threshold(device) && objects_inside(caller, "aimdo"))
        trim_for(device, 0, VRAMGC_REASON_THRESHOLD);
}
