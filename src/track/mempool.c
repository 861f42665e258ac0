/* mempool.c: see mempool.h. It must not guess: what a pool keeps only the driver knows. */
#include "track/mempool.h"

#include "track/free_memory.h"
#include "track/stream.h"

struct mempool_idle mempool_idle(const struct device *device) {
    real_cuDeviceGetMemPool_t get_pool = REAL(cuDeviceGetMemPool);
    real_cuMemPoolGetAttribute_t get = REAL(cuMemPoolGetAttribute);
    struct mempool_idle idle = {.changes =
                                    __atomic_load_n(&device->pool.changes, __ATOMIC_ACQUIRE)};
    cuuint64_t reserved = 0, used = 0;
    if (get_pool && get && get_pool(&idle.pool, (CUdevice)device_index(device)) == CUDA_SUCCESS &&
        get(idle.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS &&
        get(idle.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS) {
        idle.idle_bytes = minus_u64(reserved, used);
        idle.reserved_bytes = reserved;
    }
    return idle;
}

bool mempool_in_use(const struct device *device) {
    return figure_get(&device->out->stats.pool_bytes.peak) > 0;
}

/* It is held by this process. False: a thread of the program has taken or given some of it since
 * the driver was asked, so that the answer is old, and nothing is counted. Unless it is the last
 * one: then what that thread has is not counted twice, and what it gave is seen at the next look.
 */
static bool account_pool(struct device *device, const struct mempool_idle *idle, bool last) {
    struct vramgc_device_stats *stats = &device->out->stats;
    lock_take(&device->lock);
    uint64_t before = device->pool.idle_bytes;
    bool old = __atomic_load_n(&device->pool.changes, __ATOMIC_RELAXED) != idle->changes;
    uint64_t idle_bytes = !old   ? idle->idle_bytes
                          : last ? min_u64(idle->idle_bytes, before)
                                 : before;
    __atomic_store_n(&device->pool.idle_bytes, idle_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&device->pool.seen, idle->changes, __ATOMIC_RELAXED);
    device_publish(device);
    gauge_add(&stats->held_bytes, minus_u64(idle_bytes, before)); /* inside, for resets */
    gauge_subtract(&stats->held_bytes, minus_u64(before, idle_bytes));
    lock_give(&device->lock);
    return !old;
}

/* An answer that is old, for memory moved meanwhile, is asked for again; after the third the
 * figures are as good as any while memory moves all the time. */
static struct mempool_idle settle(struct device *device, struct mempool_idle idle) {
    enum { TRIES = 3 };
    for (int i = 1; !account_pool(device, &idle, i == TRIES) && i < TRIES; i++)
        idle = mempool_idle(device);
    return idle;
}

struct mempool_idle mempool_account(struct device *device) {
    return settle(device, mempool_idle(device));
}

uint64_t mempool_look(struct device *device) {
    if (!mempool_in_use(device))
        return 0;
    return mempool_account(device).idle_bytes;
}

uint64_t mempool_used(const struct device *device) {
    return __atomic_load_n(&device->pool.used_bytes, __ATOMIC_RELAXED);
}

uint64_t mempool_needed(struct device *device, uint64_t now_ns, uint64_t within_ns) {
    struct device_pool *pool = &device->pool;
    LOCKED(&device->lock);
    if (minus_u64(now_ns, pool->since_ns) >= within_ns) {
        pool->most_before_bytes = within_ns ? pool->most_bytes : 0;
        pool->most_bytes = pool->used_bytes;
        pool->since_ns = now_ns;
    }
    return max_u64(pool->most_bytes, pool->most_before_bytes);
}

static uint64_t used_together(const struct device *device) {
    return mempool_used(device) + __atomic_load_n(&device->own_pool.used_bytes, __ATOMIC_RELAXED);
}

void mempool_note_together(struct device *device) {
    uint64_t *mark = &device->own_pool.together_bytes;
    uint64_t now = used_together(device), known = __atomic_load_n(mark, __ATOMIC_RELAXED);
    while (now > known && !__atomic_compare_exchange_n(mark, &known, now, true, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED))
        continue;
}

void mempool_reset_together(struct device *device) {
    __atomic_store_n(&device->own_pool.together_bytes, used_together(device), __ATOMIC_RELAXED);
}

/* Enters the trim into the books at once: the process may end before our own thread looks again. */
void mempool_trimmed(CUmemoryPool pool) {
    for (EACH_DEVICE(device)) {
        struct mempool_idle idle = mempool_in_use(device) && !capture_active()
                                       ? mempool_idle(device)
                                       : (struct mempool_idle){0};
        if (!idle.pool || idle.pool != pool)
            continue;
        bool less = idle.idle_bytes < __atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED);
        settle(device, idle);
        if (less && device_current() == device)
            device_read_memory(device);
    }
}
