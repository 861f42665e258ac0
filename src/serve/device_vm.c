/* device_vm.c: see device_vm.h: between PyTorch's blocks and the page engine (vm/vm.h). It must
 * never let a block reach its user without pages. */
#include "serve/device_vm.h"

#include "base/log.h"
#include "cuda/errors.h"
#include "govern/decay_thread.h"
#include "govern/last_resort.h"
#include "govern/mode.h"
#include "govern/own_thread.h"
#include "serve/sharing.h"
#include "track/device.h"
#include "track/oom.h"
#include "track/process_state.h"
#include "track/stream.h"
#include "track/thread.h"

/* Before other threads can see it: from its first page on it asks every stream. */
static struct vm *open_engine(struct device *device) {
    const struct options *options = settings_options();
    unsigned index = device_index(device);
    if (!errors_find()) /* a block without pages must never be handed out */
        return NULL;
    struct vm *vm = vm_open(index, capture_active, options->lowvram ? 0 : options->threshold);
    if (!vm)
        return NULL;
    if (vm_context(vm) == (uint64_t)(uintptr_t)context_primary(index))
        vm_ask_context(vm);
    if (mode_unmaps_at_rest(index)) {
        vm_unmap_at_rest(vm);
        LOG(LOG_INFO, "gpu%u: unmapping waits for kernels: idle memory goes back at rest", index);
    }
    stream_follow(index, vm);
    return vm;
}

/* At the first segment of a device, in a thread whose context is current. */
struct vm *device_vm_open(struct device *device) {
    const struct options *options = settings_options();
    bool untried = false;
    if (!mode_is_compact(device) ||
        !atomic_compare_exchange_strong(&device->paging.tried, &untried, true))
        return device_pages(device);
    struct vm *vm = open_engine(device);
    bool no_spill = vm && options->spill && !vm_enable_spill(vm, options->spill);
    atomic_store_explicit(&device->paging.vm, vm, memory_order_release);
    wakeup(WAKEUP_LOOK); /* pages may have to go soon */
    peer_access_vm_opened(device_index(device));
    mode_tried(device, vm != NULL);
    if (no_spill)
        LOG(LOG_WARN, "gpu%u cannot map host memory: VRAMGC_SPILL is not used there",
            device_index(device));
    if (!vm && options->mode == MODE_COMPACT)
        LOG(LOG_WARN, "gpu%u cannot map memory page by page; mode flush is used there",
            device_index(device));
    return vm;
}

struct vm *device_steps_open(struct device *device, const CUmemAllocationProp *properties) {
    bool untried = false;
    if (!atomic_compare_exchange_strong(&device->paging.tried, &untried, true))
        return device_steps(device);
    struct vm *vm = vm_open_steps(device_index(device), capture_active, properties);
    atomic_store_explicit(&device->paging.steps, vm, memory_order_release);
    wakeup(WAKEUP_LOOK); /* starts the thread that gives back */
    return vm;
}

/* Where that fails PyTorch gets an error, and counts the block as allocated for ever. */
static bool block_came(const struct block_event *event, struct vm *vm) {
    struct request request = {
        .device = event->device, .bytes = event->bytes, .what = REFUSED_PAGES};
    bool pin = capture_active(), came;
    /* Count the call before it can block: `--park` (park_idle.c) takes it for the first sign of
     * work. Elsewhere the driver's calls that a block causes are counted. */
    call_made(ID__ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE);
    do
        came = vm_commit(vm, event->address, event->bytes, pin);
    while (UNLIKELY(!came) && vm_refusal() == CUDA_ERROR_OUT_OF_MEMORY && last_resort(&request));
    if (LIKELY(came)) {
        device_account_pages(event->device);
        return true;
    }
    vm_commit_failed(vm, event->address, event->bytes);
    if (vm_refusal() == CUDA_ERROR_OUT_OF_MEMORY)
        oom_at_block(event->device, event->bytes);
    wakeup(WAKEUP_LOOK);
    return false;
}

/* A block that other streams still use is as idle as one that its own stream does: all of them are
 * asked before its pages go. When PyTorch hands it out again is PyTorch's. */
bool device_vm_block_changed(const struct block_event *event) {
    struct vm *vm = device_pages(event->device);
    if (LIKELY(!vm))
        return true;
    if (event->allocated)
        return block_came(event, vm);
    vm_mark_idle(vm, event->address, event->bytes);
    decay_note_idle(event->device);
    return true;
}
