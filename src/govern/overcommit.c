/* overcommit.c: PyTorch's cache holds addresses, not memory, so it may outgrow the device. That
 * must stay within bounds: what cudaMemGetInfo says cannot make up for more, and what is cached
 * could be handed out later where there are no pages for it. Runs before addresses are granted,
 * with the lock of PyTorch's allocator held: it must not wait, nor call Python. */
#include "govern/overcommit.h"

#include "govern/background_thread.h"
#include "govern/induce_oom.h"
#include "govern/python.h"
#include "govern/torch.h"
#include "heap/heap.h"
#include "track/capture.h"
#include "track/device.h"
#include "track/thread.h"

#include <stdlib.h>

/* PyTorch may keep unused segments worth one part in so many of the device beyond it, and that much
 * may be missing to a full device. */
enum { PART = 8 };

/* Requests up to this come from segments of their own, of this size. */
#define SMALL_SEGMENT_BYTES (2 * MEBIBYTE)

/* Until 2.13 PyTorch does not ask again inside torch.cuda.use_mem_pool and in the warm-up of CUDA
 * graphs, which cannot be seen from here: there a refusal would be a real error. */
static bool always_asks_again(void) {
    struct torch_version version;
    return torch_parse(store_file()->torch_version, &version) && torch_at_least(&version, 2, 13);
}

/* max_split_size_mb: blocks of this size and more are a whole segment each, and serve requests of
 * nearly their own size only. 0: not set. */
static uint64_t oversize_bytes(void) {
    static const char name[] = "max_split_size_mb:";
    const char *found = strstr(store_file()->alloc_conf, name);
    return found ? strtoull(found + sizeof name - 1, NULL, 10) * MEBIBYTE : 0;
}

struct oversize {
    uint64_t least_bytes, stream;
    uint64_t unused_bytes; /* found so far */
};

static bool add_oversize(const struct heap_run *run, void *context) {
    struct oversize *oversize = context;
    if (run->state == HEAP_FREE && run->kind == HEAP_NATIVE && run->stream == oversize->stream &&
        run->bytes == run->segment_bytes && run->bytes >= oversize->least_bytes)
        oversize->unused_bytes += run->bytes;
    return true;
}

/* Where it is refused memory PyTorch first gives up unused oversize segments of that stream, as
 * much as it needs, and asks again: at the price of those alone, and it counts no retry. */
static bool gives_up_oversize(struct device *device, uint64_t bytes) {
    struct oversize oversize = {.least_bytes = oversize_bytes(), .stream = thread_state.stream};
    if (!oversize.least_bytes || bytes <= SMALL_SEGMENT_BYTES)
        return false;
    lock_take(&device->lock);
    heap_walk(device->heap, add_oversize, &oversize);
    lock_give(&device->lock);
    return oversize.unused_bytes >= max_u64(bytes, oversize.least_bytes);
}

struct excess {
    uint64_t capacity_bytes, live_bytes; /* of the device's memory; and what is used of it */
    uint64_t over_bytes;                 /* addresses beyond it, with the new segment */
};

static struct excess excess_with(const struct device *device, struct vm *vm, uint64_t bytes) {
    struct vm_figures figures = vm_figures(vm);
    uint64_t capacity =
        device_free_bytes(device) + figures.physical_bytes + figures.may_spill_bytes;
    return (struct excess){
        .capacity_bytes = capacity,
        .live_bytes = minus_u64(figures.mapped_bytes, figures.idle_bytes),
        .over_bytes = minus_u64(figures.reserved_bytes + bytes, capacity),
    };
}

/* Much more addresses than memory, or a little more and nearly all of the memory is live; and
 * emptying the cache helps. */
static bool is_too_much(const struct device *device, const struct excess *excess, uint64_t bytes) {
    uint64_t part = excess->capacity_bytes / PART;
    return figure_get(&device->out->stats.releasable_bytes.current) >= part &&
           (excess->over_bytes > part ||
            excess->live_bytes + bytes > excess->capacity_bytes - part);
}

/* A refusal after which PyTorch gives up all of its cache is a retry in its books: where our own
 * thread can have the cache emptied by Python, it is left to that, until as much as the device has
 * is beyond it. */
static bool cannot_wait(struct device *device, const struct excess *excess) {
    if (!python_may_empty() || excess->over_bytes > excess->capacity_bytes)
        return true;
    if (!atomic_exchange(&device->overcommitted, true))
        background_thread_look();
    return false;
}

static bool refuse(struct device *device, uint64_t bytes, bool retries) {
    induce_oom_begin(device, bytes, VRAMGC_REASON_THRESHOLD, retries);
    return true;
}

bool overcommit_fails(struct device *device, struct vm *vm, uint64_t bytes) {
    if (induce_oom_ended(device, bytes) || !device_read_memory(device))
        return false;
    struct excess excess = excess_with(device, vm, bytes);
    bool may_refuse = excess.over_bytes && always_asks_again() && induce_oom_possible(device);
    if (may_refuse && gives_up_oversize(device, bytes))
        return refuse(device, bytes, false);
    if (!excess.over_bytes || !is_too_much(device, &excess, bytes))
        return false;
    return cannot_wait(device, &excess) && may_refuse && refuse(device, bytes, true);
}

/* Expandable segments outgrow the device together with max_split_size_mb only. They have no need to
 * be cut short near a full device, for what lies idle in them serves every request. */
static bool is_far_too_much(const struct device *device, const struct excess *excess) {
    uint64_t part = excess->capacity_bytes / PART;
    return excess->over_bytes > part &&
           figure_get(&device->out->stats.releasable_bytes.current) >= part;
}

bool overcommit_fails_mapping(struct device *device, struct vm *vm, uint64_t bytes) {
    struct excess excess = excess_with(device, vm, bytes);
    if (LIKELY(!is_far_too_much(device, &excess)) || capture_active() ||
        !device_read_memory(device))
        return false;
    excess = excess_with(device, vm, bytes);
    if (!is_far_too_much(device, &excess))
        return false;
    return cannot_wait(device, &excess) && always_asks_again();
}
