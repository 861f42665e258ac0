/* async.c: see async.h. It must be sure that a call means the device's default pool before it
 * answers it; whatever it is not sure of is left to the driver. What programs ask the default pool
 * about it answers for both: the driver's pool and ours. */
#include "serve/async.h"

#include "base/log.h"
#include "govern/decay_thread.h"
#include "govern/last_resort.h"
#include "govern/mode.h"
#include "python/names.h"
#include "serve/device_vm.h"
#include "serve/sharing.h"
#include "track/device.h"
#include "track/mempool.h"
#include "track/oom.h"
#include "track/stream.h"
#include "vm/pool.h"

static struct {
    _Atomic(struct pool *) pools[VRAMGC_MAX_DEVICES];
    atomic_bool tried[VRAMGC_MAX_DEVICES];
    _Atomic(CUmemoryPool) defaults[VRAMGC_MAX_DEVICES]; /* the driver's, which we stand for */
} self;

static struct pool *pool_of(const struct device *device) {
    return atomic_load_explicit(&self.pools[device_index(device)], memory_order_acquire);
}

static CUmemoryPool default_pool(unsigned index) {
    real_cuDeviceGetDefaultMemPool_t get = REAL(cuDeviceGetDefaultMemPool);
    CUmemoryPool pool = NULL;
    return get && get(&pool, (CUdevice)index) == CUDA_SUCCESS ? pool : NULL;
}

/* --- opening --- */

/* At the first call, in a thread whose context is the device's. */
static struct pool *open_pool(struct device *device) {
    unsigned index = device_index(device);
    bool untried = false;
    if (atomic_load_explicit(&self.tried[index], memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&self.tried[index], &untried, true))
        return pool_of(device);
    struct vm *vm = device_vm_open(device); /* where it cannot be opened that is said */
    CUmemoryPool of_driver = vm ? default_pool(index) : NULL;
    struct pool *pool = of_driver && REAL(cuDeviceGetMemPool)
                            ? pool_open(vm, atomic_load(&device->memory.total_bytes))
                            : NULL;
    if (vm && !pool)
        LOG(LOG_WARN, "gpu%u: VRAMGC_ASYNC=pages is not possible here; the driver's pool is used",
            index);
    atomic_store(&self.defaults[index], of_driver);
    atomic_store_explicit(&self.pools[index], pool, memory_order_release);
    return pool;
}

/* --- allocation --- */

/* asked: the pool that the call names; NULL: the device's current one. */
static bool means_default(struct device *device, CUmemoryPool asked) {
    unsigned index = device_index(device);
    CUmemoryPool pool = asked;
    if (!asked && REAL(cuDeviceGetMemPool)(&pool, (CUdevice)index) != CUDA_SUCCESS)
        return false;
    return pool == atomic_load_explicit(&self.defaults[index], memory_order_relaxed);
}

/* Before the event is recorded, which publishes it. */
static void note_figures(struct device *device, struct pool *pool) {
    struct arena_figures figures = pool_figures(pool);
    __atomic_store_n(&device->own_pool.page_bytes, figures.page_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&device->own_pool.used_bytes, figures.used_bytes, __ATOMIC_RELAXED);
    mempool_note_together(device);
    device_account_pages(device);
}

/* The runtime gives a thread that has no context yet that of its device, at its first call: here it
 * is not called. */
static void bind_thread(enum real_id id, const struct device *device) {
    CUcontext current = NULL, primary = context_primary(device_index(device));
    if (real_table[id].library == CUDART && primary && real_current_context(&current) && !current &&
        device_current() == device)
        REAL(cuCtxSetCurrent)(primary);
}

/* While a stream is captured its allocations become nodes of a graph: the driver's business. */
enum serve_answer async_alloc(const struct async_request *call, void **out) {
    uint64_t address;
    bool serves = call->bytes && mode_wants_own_pool() && !capture_includes(call->stream);
    struct device *device = serves ? device_current() : NULL;
    struct pool *pool = device ? open_pool(device) : NULL;
    if (!pool || !means_default(device, call->pool))
        return SERVE_PASS;
    bind_thread(call->id, device);
    struct request request = {.device = device, .bytes = call->bytes, .what = REFUSED_PAGES};
    enum pool_answer answer;
    do
        answer = pool_take(pool, call->bytes, call->stream, &address);
    while (UNLIKELY(answer == POOL_FULL) && last_resort(&request));
    if (answer == POOL_NOT_OURS)
        return SERVE_PASS;
    note_figures(device, pool);
    if (answer == POOL_FULL) {
        (call->allocator ? oom_at_pool : oom_at_call)(call->id, call->bytes);
        return SERVE_OOM;
    }
    if (!alloc_succeeded(CLASS_VM_POOL, address, call->bytes, call->allocator)) {
        pool_give(pool, address, call->stream); /* the program could not free it */
        return SERVE_PASS;
    }
    *out = (void *)(uintptr_t)address;
    return SERVE_DONE;
}

bool async_free(enum real_id id, const struct alloc_freed *taken, uint64_t stream) {
    struct device *device =
        taken->known && taken->class == CLASS_VM_POOL ? device_if_ready(taken->device) : NULL;
    struct pool *pool = device ? pool_of(device) : NULL;
    if (!pool || (stream != STREAM_NONE && capture_includes(stream)))
        return false;
    bind_thread(id, device);
    if (!pool_give(pool, taken->address, stream))
        return false;
    note_figures(device, pool);
    decay_note_idle(device);
    return true;
}

/* --- what programs ask the default pool --- */

/* The device whose default pool this is; NULL: of none that has a pool of ours. */
static struct device *device_of_pool(CUmemoryPool pool) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES && pool && recording_is_on(); i++)
        if (atomic_load(&self.defaults[i]) == pool && atomic_load(&self.pools[i]))
            return device_if_ready(i);
    return NULL;
}

/* Both pools' marks may be of different moments. Of the driver's pools together we know how much
 * was asked for, of its default one how much was used: the driver rounds up, and has other pools.
 */
static uint64_t used_high(struct device *device, uint64_t of_driver, uint64_t own) {
    uint64_t together = __atomic_load_n(&device->own_pool.together_bytes, __ATOMIC_RELAXED);
    return max_u64(min_u64(of_driver + own, together), max_u64(of_driver, own));
}

void async_pool_get_attribute(CUmemoryPool asked, CUmemPool_attribute attribute, void *value) {
    struct device *device = device_of_pool(asked);
    if (!device)
        return;
    struct arena_figures figures = pool_figures(pool_of(device));
    cuuint64_t *bytes = value;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *bytes += figures.page_bytes;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *bytes += figures.page_high_bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *bytes += figures.used_bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *bytes = used_high(device, *bytes, figures.used_high_bytes);
        break;
    default:
        break; /* settings, which the driver keeps */
    }
}

void async_pool_set_attribute(CUmemoryPool asked, CUmemPool_attribute attribute) {
    struct device *device = device_of_pool(asked);
    if (!device)
        return;
    pool_reset_high(pool_of(device), attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                    attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        mempool_reset_together(device);
}

/* Idle pages are to be had elsewhere anyway: that many programs trim all the time costs no call of
 * the driver. */
void async_pool_trim(CUmemoryPool asked) {
    struct device *device = device_of_pool(asked);
    struct vm *vm = device ? device_pages(device) : NULL;
    if (vm) {
        vm_trim(vm);
        decay_note_given_up(device);
    } else if (recording_is_on())
        mempool_trimmed(asked);
}

bool async_pool_set_access(CUmemoryPool asked, const CUmemAccessDesc *access, size_t count) {
    bool opened = true;
    unsigned owner = 0;
    if (!recording_is_on() || !mode_wants_own_pool())
        return true;
    while (owner < VRAMGC_MAX_DEVICES && default_pool(owner) != asked)
        owner++;
    for (size_t i = 0; i < count && owner < VRAMGC_MAX_DEVICES; i++) {
        unsigned other = (unsigned)access[i].location.id;
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            opened = peer_access_enabled(other, owner) && opened;
    }
    return opened;
}

/* --- the rest of the room --- */

/* The capture's memory comes from the driver's pool: what may go there goes. */
void async_capture_prepare(struct device *device) {
    if (pool_of(device))
        vm_reclaim(device_pages(device), UINT64_MAX, VM_ASK_NOT);
}

void async_stream_gone(uint64_t stream) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct pool *pool = atomic_load(&self.pools[i]);
        if (pool)
            pool_stream_gone(pool, stream);
    }
}

void async_forget(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        pool_forget(atomic_load(&self.pools[i]));
}

/* Its books stay: another thread may read them. */
void async_reset(struct device *device) {
    unsigned index = device_index(device);
    atomic_store(&self.pools[index], NULL);
    __atomic_store_n(&device->own_pool.page_bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&device->own_pool.used_bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&device->own_pool.together_bytes, 0, __ATOMIC_RELAXED);
    atomic_store(&self.tried[index], false);
}
