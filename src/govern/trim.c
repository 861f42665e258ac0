/* trim.c: see trim.h. It must not wait for the GPU while a stream is captured, for that would end
 * the capture, nor in a thread of the program unless that was refused memory. */
#include "govern/trim.h"

#include "track/record.h"

/* The device's current pool, and what it kept after so many changes. */
struct kept {
    CUmemoryPool pool;
    uint64_t idle_bytes, changes;
};

static struct kept kept_of(const struct device *device) {
    real_cuDeviceGetMemPool_t get_pool = REAL(cuDeviceGetMemPool);
    real_cuMemPoolGetAttribute_t get = REAL(cuMemPoolGetAttribute);
    struct kept kept = {.changes = __atomic_load_n(&device->pool_changes, __ATOMIC_ACQUIRE)};
    cuuint64_t reserved = 0, used = 0;
    if (get_pool && get && get_pool(&kept.pool, (CUdevice)device_index(device)) == CUDA_SUCCESS &&
        get(kept.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS &&
        get(kept.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS)
        kept.idle_bytes = minus_u64(reserved, used);
    return kept;
}

static bool is_in_use(const struct device *device) {
    return figure_get(&device->out->stats.pool_bytes.peak) > 0;
}

/* It is held by this process. Where a thread of the program has taken some of it since the driver
 * was asked, the answer is old: what it has is not counted twice, but seen at the next look. */
static void account(struct device *device, struct kept kept) {
    struct vramgc_device_stats *stats = &device->out->stats;
    lock_take(&device->lock);
    uint64_t before = device->pool_idle_bytes;
    bool old = __atomic_load_n(&device->pool_changes, __ATOMIC_RELAXED) != kept.changes;
    uint64_t idle_bytes = old ? min_u64(kept.idle_bytes, before) : kept.idle_bytes;
    __atomic_store_n(&device->pool_idle_bytes, idle_bytes, __ATOMIC_RELAXED);
    device_publish(device);
    gauge_add(&stats->held_bytes, minus_u64(idle_bytes, before)); /* inside, for resets */
    gauge_subtract(&stats->held_bytes, minus_u64(before, idle_bytes));
    lock_give(&device->lock);
}

uint64_t pools_look(struct device *device) {
    if (!is_in_use(device))
        return 0;
    struct kept kept = kept_of(device);
    account(device, kept);
    return kept.idle_bytes;
}

/* What went is told at once: the process may end before our own thread looks again. */
void pools_trimmed(CUmemoryPool pool) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES && !record_capturing(); i++) {
        struct device *device = device_if_ready(i);
        struct kept kept = device && is_in_use(device) ? kept_of(device) : (struct kept){0};
        if (!kept.pool || kept.pool != pool)
            continue;
        bool less = kept.idle_bytes < __atomic_load_n(&device->pool_idle_bytes, __ATOMIC_RELAXED);
        account(device, kept);
        if (less && device_current() == device)
            device_read_memory(device);
    }
}

/* Waiting holds up the calling thread only. */
static bool trim(CUmemoryPool pool) {
    real_cuMemPoolTrimTo_t trim_to = REAL(cuMemPoolTrimTo);
    real_cuCtxSynchronize_t synchronize = REAL(cuCtxSynchronize);
    return !record_capturing() && trim_to && synchronize && synchronize() == CUDA_SUCCESS &&
           trim_to(pool, 0) == CUDA_SUCCESS;
}

static bool enter(const struct device *device) {
    real_cuCtxSetCurrent_t set_current = REAL(cuCtxSetCurrent);
    CUcontext context = __atomic_load_n(&device->context, __ATOMIC_RELAXED);
    return context && set_current && set_current(context) == CUDA_SUCCESS;
}

/* The device's context is current. What the pool keeps may lie beside what is live, so that none of
 * it can go: that was no reclaim. */
static bool trim_and_tell(struct device *device, struct vramgc_action *action) {
    struct kept kept = kept_of(device);
    uint64_t start = clock_ns();
    action->kind = VRAMGC_ACTION_TRIM;
    action->before_bytes = kept.idle_bytes;
    if (!action->observed) {
        if (!trim(kept.pool))
            return false;
        struct kept left = kept_of(device);
        action->after_bytes = left.idle_bytes;
        account(device, left);
    }
    action->took_ns = clock_ns() - start;
    if (action->observed || action->after_bytes < action->before_bytes)
        device_conclude(device, action);
    return true;
}

bool pools_trim(struct device *device, struct vramgc_action action) {
    return (action.observed || enter(device)) && trim_and_tell(device, &action);
}

/* Whether free and idle bytes together are enough: else nothing helps. */
static bool would_do(struct device *device, uint64_t idle_bytes, uint64_t bytes) {
    return idle_bytes && device_read_memory(device) &&
           atomic_load(&device->free_bytes) + idle_bytes >= bytes;
}

bool pools_rescue(struct device *device, uint64_t bytes) {
    enum policy_mode mode = record_policy_settings().mode;
    if (mode == POLICY_OFF || record_capturing() || !is_in_use(device) ||
        !would_do(device, kept_of(device).idle_bytes, bytes))
        return false;
    struct vramgc_action action = {
        .device = device_index(device),
        .reason = VRAMGC_REASON_REFUSED,
        .observed = mode == POLICY_OBSERVE,
        .request_bytes = bytes,
        .used_bytes = device_used_bytes(device),
    };
    return trim_and_tell(device, &action) && !action.observed;
}
