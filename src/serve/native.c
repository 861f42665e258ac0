/* native.c: see native.h. It must leave to the driver whatever it is not sure of. */
#include "serve/native.h"

#include "govern/decay_thread.h"
#include "serve/async.h"
#include "serve/capacity.h"
#include "serve/device_vm.h"
#include "track/capture.h"
#include "track/device.h"
#include "track/oom.h"
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
    bool fails = capacity_fails(device, vm, bytes, again);
    uint64_t address = fails ? 0 : vm_reserve(vm, bytes, stream->handle);
    if (!address && (fails || !vm_could_back(vm, bytes))) {
        oom_at_call(ID_cudaMalloc, bytes);
        return SERVE_OOM;
    }
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
    struct vm *vm = device ? device_vm(device) : NULL;
    bool ended = vm && vm_unreserve(vm, taken->address);
    if (ended) {
        device_account_pages(device);
        decay_note_given_up(device);
    }
    return ended;
}
