/* serve.c: see serve.h. It must tell every file of this room, and every page engine; and leave to
 * the driver whatever it is not sure of. */
#include "serve/serve.h"

#include "govern/decay_thread.h"
#include "govern/reclaim.h"
#include "serve/async.h"
#include "serve/capacity.h"
#include "serve/device_vm.h"
#include "serve/sharing.h"
#include "track/device.h"
#include "track/oom.h"
#include "track/stream.h"
#include "track/thread.h"
#include "vm/vm.h"

enum serve_answer serve_malloc(uint64_t bytes, void **out) {
    const struct thread_stream *stream = thread_stream();
    struct device *device = device_current();
    if (!device || !stream->asked || stream->capturing || capture_active() || bytes % PAGE_BYTES)
        return SERVE_PASS;
    struct vm *vm = device_vm_open(device);
    if (!vm)
        return SERVE_PASS;
    bool again = UNLIKELY(oom_is_open()) && oom_segment_asked(device, bytes);
    if (capacity_fails(device, vm, bytes, again, true)) {
        oom_at_call(ID_cudaMalloc, bytes);
        return SERVE_OOM;
    }
    uint64_t address = vm_reserve(vm, bytes, stream->handle);
    if (!address)
        return SERVE_PASS;
    if (!alloc_succeeded(CLASS_VM, address, bytes, true)) {
        vm_unreserve(vm, address); /* the program could not free it */
        return SERVE_PASS;
    }
    *out = (void *)(uintptr_t)address;
    return SERVE_DONE;
}

bool serve_free(const struct alloc_freed *taken) {
    if (taken->known && taken->class == CLASS_VM_POOL)
        return async_free(ID_cudaFree, taken, STREAM_NONE);
    struct device *device =
        taken->known && taken->class == CLASS_VM ? device_if_ready(taken->device) : NULL;
    struct vm *vm = device ? device_pages(device) : NULL;
    bool ended = vm && vm_unreserve(vm, taken->address);
    if (ended) {
        device_account_pages(device);
        decay_note_given_up(device);
    }
    return ended;
}

/* The default streams cannot be destroyed: the call fails, and they must be asked as before. */
void serve_stream_gone(uint64_t stream) {
    if (stream <= STREAM_PER_THREAD)
        return;
    async_stream_gone(stream);
    for (EACH_DEVICE(device))
        if (recording_is_on() && device_pages(device))
            vm_stream_gone(device_pages(device), stream);
}

void serve_capture_prepare(void) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (!device || !device_pages(device))
        return;
    vm_capture_prepare(device_pages(device));
    async_capture_prepare(device);
}

void serve_capture_begin(void) {
    vm_capture_begin();
    for (EACH_DEVICE(device))
        if (recording_is_on() && device_pages(device))
            vm_pin_live(device_pages(device));
}

void serve_reset(struct device *device) {
    async_reset(device);
    /* Its books are few and stay: another thread may read. */
    atomic_store(&device->paging.vm, NULL);
    atomic_store(&device->paging.steps, NULL);
    device->paging.held_bytes = device->paging.calls = 0;
    atomic_store(&device->paging.changes_seen, 0);
    gauge_set(&device->out->stats.page_bytes, 0);
    gauge_set(&device->out->stats.spilled_bytes, 0);
    atomic_store(&device->paging.tried, false);
    peer_access_reset(device_index(device));
    reclaim_reset(device);
}

void serve_forget(void) {
    async_forget();
    vm_forget(NULL); /* what is of no engine */
    for (EACH_DEVICE(device))
        vm_forget(device_engine(device));
}
