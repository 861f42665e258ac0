/* capacity.c: PyTorch's cache holds addresses, not memory; still it is told what the card itself
 * would have told it, so that the sums by which programs steer (free + reserved - active) are
 * right. Beyond what the card holds addresses are granted only where PyTorch, having emptied its
 * cache, would otherwise report out of memory. It must not wait, nor call Python: the lock of
 * PyTorch's allocator is held. */
#include "serve/capacity.h"

#include "track/capture.h"
#include "track/recording.h"
#include "track/thread.h"
#include "vm/vm.h"

/* As in vm/: other programs' memory comes and goes as well. An out of memory is answered by a new
 * reading. */
#define MAX_AGE_NS (2 * MILLISECOND_NS)

/* What is neither reserved nor free: pages of the pool of our own, and what this thread has made
 * for an expandable segment and not mapped yet. */
static uint64_t elsewhere(const struct device *device) {
    return thread_state.unmapped_handle_bytes +
           __atomic_load_n(&device->own_pool.page_bytes, __ATOMIC_RELAXED);
}

/* PyTorch will ask for pages for what it holds without any, what it has made and not mapped yet
 * included, but for the blocks that were refused: those it never hands out again. */
uint64_t capacity_free_as_seen(uint64_t free_bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vm *vm = device ? device_vm(device) : NULL;
    if (!vm)
        return free_bytes;
    struct vm_figures figures = vm_figures(vm);
    return minus_u64(free_bytes + figures.physical_bytes + figures.failed_bytes,
                     figures.reserved_bytes + elsewhere(device));
}

static bool card_has(struct device *device, struct vm *vm, uint64_t bytes, uint64_t max_age_ns) {
    return minus_u64(vm_free_as_reserved(vm, max_age_ns), elsewhere(device)) >= bytes;
}

/* Nothing that PyTorch could give up, and no block that only waits for another stream. */
static bool cache_is_empty(const struct device *device) {
    const struct vramgc_device_stats *stats = &device->out->stats;
    return !device_releasable_bytes(device) &&
           figure_get(&stats->active_bytes.current) == figure_get(&stats->allocated_bytes.current);
}

/* During a capture PyTorch does not empty its cache. */
bool capacity_fails(struct device *device, struct vm *vm, uint64_t bytes, bool asked_again) {
    if (LIKELY(card_has(device, vm, bytes, MAX_AGE_NS)) || card_has(device, vm, bytes, 0))
        return false;
    bool last = asked_again || capture_active() || cache_is_empty(device);
    return !last || !vm_could_back(vm, thread_state.unmapped_handle_bytes + bytes);
}
