/* device_vm.c: see device_vm.h: between the hooks and the page engine (vm/vm.h). It must keep two
 * promises: whoever computes free + reserved - allocated gets what can really be had, and memory
 * that only waits for PyTorch's next block is never missing elsewhere. */
#include "serve/device_vm.h"

#include "base/log.h"
#include "cuda/errors.h"
#include "govern/decay.h"
#include "govern/mode.h"
#include "serve/async.h"
#include "serve/capacity.h"
#include "serve/sharing.h"
#include "track/capture.h"
#include "track/device.h"
#include "track/recording.h"
#include "track/settings.h"
#include "track/stream.h"

/* At the first segment of a device, in a thread whose context is current. */
struct vm *device_vm_open(struct device *device) {
    const struct options *options = settings_options();
    bool untried = false;
    if (!mode_is_compact(device) ||
        !atomic_compare_exchange_strong(&device->vm_tried, &untried, true))
        return device_vm(device);
    struct vm *vm = errors_find() /* a block without pages must be refused, never handed out */
                        ? vm_open(device_index(device), capture_active,
                                  options->lowvram ? 0 : options->threshold)
                        : NULL;
    atomic_store_explicit(&device->vm, vm, memory_order_release);
    sharing_vm_opened(device_index(device));
    mode_tried(device, vm != NULL);
    if (vm && options->spill && !vm_enable_spill(vm, options->spill))
        LOG(LOG_WARN, "gpu%u cannot map host memory: VRAMGC_SPILL is not used there",
            device_index(device));
    if (!vm && options->mode == MODE_COMPACT)
        LOG(LOG_WARN, "gpu%u cannot map memory page by page; mode flush is used there",
            device_index(device));
    return vm;
}

bool device_vm_commit(struct device *device, uint64_t address, uint64_t bytes) {
    struct vm *vm = device_vm(device);
    return !vm || vm_commit(vm, address, bytes, capture_active());
}

void device_vm_commit_failed(struct device *device, uint64_t address, uint64_t bytes) {
    struct vm *vm = device_vm(device);
    if (vm)
        vm_commit_failed(vm, address, bytes);
}

void device_vm_mark_idle(struct device *device, uint64_t address, uint64_t bytes,
                         bool streams_done) {
    struct vm *vm = device_vm(device);
    if (vm)
        vm_mark_idle(vm, address, bytes, streams_done && !capture_active());
}

uint64_t device_vm_free_as_seen(uint64_t free_bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vm *vm = device ? device_vm(device) : NULL;
    return vm ? capacity_free_as_seen(device, vm, free_bytes) : free_bytes;
}

/* The default streams cannot be destroyed: the call fails, and they must be asked as before. */
void device_vm_stream_gone(uint64_t stream) {
    if (stream <= STREAM_PER_THREAD)
        return;
    async_stream_gone(stream);
    stream_gone(stream);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct vm *vm = device_vm_at(i);
        if (vm)
            vm_stream_gone(vm, stream);
    }
}

void device_vm_capture_prepare(unsigned index) {
    struct vm *vm = device_vm_at(index);
    if (vm)
        vm_capture_prepare(vm);
}

void device_vm_capture_begin(void) {
    vm_capture_begin();
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct vm *vm = device_vm_at(i);
        if (vm)
            vm_pin_live(vm);
    }
}

void device_vm_forget(void) {
    async_forget();
    decay_forget();
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        vm_forget(device ? device_vm(device) : NULL);
    }
}

void device_vm_reset(struct device *device) {
    async_reset(device);
    atomic_store(&device->vm, NULL); /* its books are few and stay: another thread may read */
    atomic_store(&device->vm_changes_seen, 0);
    gauge_set(&device->out->stats.page_bytes, 0);
    gauge_set(&device->out->stats.spilled_bytes, 0);
    atomic_store(&device->vm_tried, false);
    sharing_reset(device_index(device));
}
