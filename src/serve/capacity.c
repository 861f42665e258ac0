/* capacity.c: PyTorch's cache holds addresses, not memory; still it is told what the card itself
 * would have told it, so that the sums by which programs steer (free + reserved - active) are
 * right. Beyond what the card holds addresses are granted only where PyTorch, having emptied its
 * cache, would otherwise report out of memory. It must not call Python, nor wait but
 * where that can give memory (govern/last_resort.h): the lock of PyTorch's allocator is held. */
#include "serve/capacity.h"

#include "base/cancel.h"
#include "govern/last_resort.h"
#include "track/device.h"
#include "track/stream.h"
#include "track/thread.h"
#include "vm/vm.h"

/* Neither reserved nor free are pages of the pool of our own, and what this thread has made
 * for an expandable segment and not mapped yet. */
static uint64_t elsewhere(const struct device *device) {
    return thread_unmapped_handle_bytes() +
           __atomic_load_n(&device->own_pool.page_bytes, __ATOMIC_RELAXED);
}

struct capacity_reading capacity_reading_begins(void) {
    struct capacity_reading reading = {.device = recording_is_on() ? device_current() : NULL};
    if (!reading.device)
        return reading;
    reading.cancel = cancel_disable();
    reading.vm = device_engine(reading.device);
    if (reading.vm) {
        vm_reading_begins(reading.vm);
        reading.before = vm_moves(reading.vm);
    }
    return reading;
}

/* PyTorch will ask for pages for what it holds without any, what it has made and not mapped yet
 * included. */
uint64_t capacity_free_as_seen(const struct capacity_reading *reading, const struct meminfo *told) {
    if (reading->vm)
        return minus_u64(vm_free_as_told(reading->vm, told->spare_bytes, reading->before),
                         elsewhere(reading->device));
    return told->free_bytes;
}

void capacity_before_refusal(void) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vm *vm = device ? device_engine(device) : NULL;
    if (vm)
        vm_reclaim_returned(vm);
}

void capacity_reading_ends(const struct capacity_reading *reading) {
    if (!reading->device)
        return;
    if (reading->vm)
        vm_reading_ends(reading->vm);
    cancel_restore(reading->cancel);
}

static bool card_has(struct device *device, struct vm *vm, uint64_t bytes, enum meminfo_need need) {
    return minus_u64(vm_free_as_reserved(vm, need), elsewhere(device)) >= bytes;
}

/* Nothing that PyTorch could give up, and no block that only waits for another stream. */
static bool cache_is_empty(const struct device *device) {
    const struct vramgc_device_stats *stats = &device->out->stats;
    return !device_releasable_bytes(device) &&
           figure_get(&stats->active_bytes.current) == figure_get(&stats->allocated_bytes.current);
}

/* Of its last step PyTorch may need one page only, and does not say so. A block that needed more
 * counts as allocated for ever: after one such, and for a block of one step, that is not risked. */
static bool may_be_backed(struct vm *vm, uint64_t made_bytes, uint64_t step_bytes) {
    return vm_could_back(vm, made_bytes + step_bytes) ||
           (made_bytes >= step_bytes && !vm_figures(vm).failed_bytes &&
            vm_could_back(vm, made_bytes + PAGE_BYTES));
}

/* An out of memory is answered by a new reading. During a capture PyTorch does not empty its cache.
 */
bool capacity_fails(struct device *device, struct vm *vm, uint64_t bytes, bool asked_again,
                    bool segment) {
    bool has = LIKELY(card_has(device, vm, bytes, MEMINFO_KNOWN)) ||
               card_has(device, vm, bytes, MEMINFO_ANSWER);
    if (has && (!segment || LIKELY(vm_could_back(vm, bytes))))
        return false;
    uint64_t made_bytes = thread_unmapped_handle_bytes();
    uint64_t total_bytes = atomic_load(&device->memory.total_bytes); /* 0: not known */
    if (!segment && total_bytes && made_bytes + bytes > total_bytes)
        return true; /* with VRAMGC_SPILL: PyTorch up to 2.10 maps past the end of its segment */
    bool retried = asked_again;
    bool last = retried || capture_active() || cache_is_empty(device);
    struct request request = {device, made_bytes + bytes, REFUSED_PAGES, .pytorch_retries = !last};
    bool granted = last && may_be_backed(vm, made_bytes, bytes);
    while (!granted && last_resort(&request))
        granted = may_be_backed(vm, made_bytes, bytes);
    return !granted;
}
