/* cached_handles.c: see cached_handles.h. PyTorch makes all its physical memory on a device alike,
 * so that any of the same size is as good as another. It must hold no lock while the driver is
 * called. */
#include "govern/cached_handles.h"

#include "base/lock.h"
#include "card/generation.h"
#include "cuda/capture_mode.h"
#include "govern/reclaim.h"
#include "track/device.h"
#include "track/free_memory.h"
#include "track/process_state.h"
#include "track/thread.h"
#include "track/vmm.h"

#include <string.h>
#include <time.h>

/* PyTorch's pieces are of 2 and of 12 or 20 MiB: 12 GiB of the larger at least, for at most the
 * moment below. What there is no place for is released as without us. */
enum { MOST = 1024 };

struct cached {
    CUmemGenericAllocationHandle handle;
    uint64_t bytes, since_ns;
};

struct cache {
    struct lock lock;
    CUmemAllocationProp properties; /* of all that PyTorch makes */
    atomic_bool known;              /* it has made some, or may be making them */
    bool differ;                    /* not all alike: nothing is cached */
    uint64_t bytes;
    size_t count;
    struct cached list[MOST]; /* the longest cached first */
};

static struct {
    struct cache of_device[VRAMGC_MAX_DEVICES];
    atomic_uint readers; /* of the card: meanwhile our thread gives nothing back */
    atomic_bool stopped;
} self;
CHILD_OPENS_EACH(self.of_device);

static struct cache *cache_of(const struct device *device) {
    return &self.of_device[device_index(device)];
}

/* As in mode compact what PyTorch has returned, below the threshold (policy.h). */
uint64_t cached_handles_age_ns(void) {
    return settings_policy().idle_most_ns;
}

uint64_t cached_handles_bytes(const struct device *device) {
    struct cache *cache = cache_of(device);
    lock_take(&cache->lock);
    uint64_t bytes = cache->bytes;
    lock_give(&cache->lock);
    return bytes;
}

/* --- in --- */

static bool is_on(void) {
    return !atomic_load_explicit(&self.stopped, memory_order_relaxed) &&
           settings_policy().mode == POLICY_ACT && !settings_options()->lowvram;
}

static bool add(struct cache *cache, CUmemGenericAllocationHandle handle, uint64_t bytes) {
    uint64_t now_ns = clock_ns();
    lock_take(&cache->lock);
    bool room = cache->known && !cache->differ && cache->count < MOST;
    if (room) {
        cache->list[cache->count++] = (struct cached){handle, bytes, now_ns};
        cache->bytes += bytes;
    }
    lock_give(&cache->lock);
    return room;
}

/* In our own thread PyTorch empties its cache because the memory is to go back. */
bool cached_handles_put(CUmemGenericAllocationHandle handle, CUresult *answer) {
    struct book_handle known;
    if (!recording_is_on() || !is_on() || thread_is_ours())
        return false;
    enum book_cached cached = vmm_cache(handle, &known);
    *answer = cached == BOOK_CACHED_TWICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (cached != BOOK_CACHED_NOW)
        return cached == BOOK_CACHED_TWICE;
    struct device *device = device_if_ready(known.device);
    if (device && !device_vm(device) && device_know_memory(device, MEMINFO_KNOWN) &&
        reclaim_is_below_threshold(device) && add(cache_of(device), handle, known.bytes))
        return true;
    vmm_uncache(&known);
    return false;
}

/* --- out --- */

/* The lock is held. */
static struct cached remove_at(struct cache *cache, size_t at) {
    struct cached cached = cache->list[at];
    cache->count--;
    memmove(&cache->list[at], &cache->list[at + 1], (cache->count - at) * sizeof cache->list[0]);
    cache->bytes -= cached.bytes;
    return cached;
}

/* The lock is held. */
static bool are_alike(struct cache *cache, const CUmemAllocationProp *properties) {
    if (!cache->known)
        cache->properties = *properties;
    cache->known = true;
    if (memcmp(&cache->properties, properties, sizeof *properties) != 0)
        cache->differ = true;
    return !cache->differ;
}

/* The one cached last, so that what is not needed grows old. */
static CUmemGenericAllocationHandle take(struct cache *cache, uint64_t bytes,
                                         const CUmemAllocationProp *properties) {
    CUmemGenericAllocationHandle handle = 0;
    lock_take(&cache->lock);
    bool alike = are_alike(cache, properties);
    for (size_t at = cache->count; alike && !handle && at-- > 0;)
        if (cache->list[at].bytes == bytes)
            handle = remove_at(cache, at).handle;
    lock_give(&cache->lock);
    return handle;
}

bool cached_handles_take(uint64_t bytes, const CUmemAllocationProp *properties,
                         CUmemGenericAllocationHandle *handle) {
    struct device *device = recording_is_on() && is_on() ? device_of_memory(properties) : NULL;
    CUmemGenericAllocationHandle taken = device ? take(cache_of(device), bytes, properties) : 0;
    if (taken) {
        *handle = taken;
        vmm_taken_again(taken, bytes, device);
    } else if (device) {
        cached_handles_release(device, bytes);
    }
    return taken != 0;
}

/* --- back to the driver --- */

static void give_back(const struct device *device, CUmemGenericAllocationHandle handle) {
    struct book_release release = vmm_release_begin(handle);
    if (REAL(cuMemRelease)(handle) == CUDA_SUCCESS)
        figure_add(&device->out->stats.driver_calls, 1);
    else
        vmm_release_abort(&release);
}

/* The longest cached, if it was before since_ns. Returns its bytes; 0: there is none. Who reads the
 * card meanwhile is to know of it. */
static uint64_t release_one(const struct device *device, uint64_t since_ns) {
    struct cache *cache = cache_of(device);
    struct cached cached = {0};
    moves_begin();
    lock_take(&cache->lock);
    if (cache->count && cache->list[0].since_ns <= since_ns)
        cached = remove_at(cache, 0);
    lock_give(&cache->lock);
    if (cached.bytes)
        give_back(device, cached.handle);
    moves_end();
    return cached.bytes;
}

uint64_t cached_handles_release(const struct device *device, uint64_t bytes) {
    uint64_t given = 0, last = 1;
    while (given < bytes && last && cached_handles_bytes(device))
        given += last = release_one(device, UINT64_MAX);
    return given;
}

uint64_t cached_handles_due_ns(const struct device *device) {
    struct cache *cache = cache_of(device);
    lock_take(&cache->lock);
    bool any = cache->count > 0;
    uint64_t since_ns = cache->list[0].since_ns;
    lock_give(&cache->lock);
    return any ? since_ns + cached_handles_age_ns() : UINT64_MAX;
}

void cached_handles_decay(const struct device *device, uint64_t now_ns) {
    uint64_t last = 1;
    while (last && !atomic_load(&self.readers))
        last = release_one(device, now_ns - cached_handles_age_ns());
}

/* --- what programs are told --- */

/* A release that is under way may wait for a processor; no other begins. At most 1 ms,
 * a hundredth of what a user takes for at once. */
static uint64_t settled_moves(void) {
    enum { STEPS = 20 };
    const struct timespec step = {.tv_nsec = (long)MILLISECOND_NS / STEPS};
    uint64_t moves = moves_now();
    for (int i = 0; i < STEPS && !moves; i++) {
        nanosleep(&step, NULL);
        moves = moves_now();
    }
    return moves;
}

bool cached_handles_reading_begins(const struct device *device, uint64_t *before) {
    bool known = is_on() && cache_of(device)->known;
    if (known)
        atomic_fetch_add(&self.readers, 1);
    *before = known ? settled_moves() : moves_now();
    return known;
}

void cached_handles_before_refusal(const struct device *device) {
    CUstreamCaptureMode before = capture_mode_relax();
    cached_handles_release(device, UINT64_MAX);
    capture_mode_set(before);
}

uint64_t cached_handles_free_as_told(const struct device *device, uint64_t free_bytes,
                                     uint64_t before) {
    struct meminfo again;
    bool moved = !generation_same(before, moves_now());
    if (moved && settled_moves() && meminfo_read(&again) == CUDA_SUCCESS)
        free_bytes = again.free_bytes;
    return free_bytes + cached_handles_bytes(device);
}

void cached_handles_reading_ends(void) {
    atomic_fetch_sub(&self.readers, 1);
}

/* --- the end --- */

void cached_handles_stop(void) {
    atomic_store(&self.stopped, true);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        if (device_if_ready(i))
            cached_handles_release(device_if_ready(i), UINT64_MAX);
}

void cached_handles_reset(const struct device *device) {
    struct cache *cache = cache_of(device);
    lock_take(&cache->lock);
    cache->count = 0;
    cache->bytes = 0;
    lock_give(&cache->lock);
}

void cached_handles_forget(void) {
    atomic_store(&self.readers, 0);
}
