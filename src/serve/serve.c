/* serve.c: see serve.h. It must tell every file of this room, and every page engine. */
#include "serve/serve.h"

#include "govern/cached_handles.h"
#include "govern/decay_thread.h"
#include "govern/reclaim.h"
#include "serve/async.h"
#include "serve/peer_access.h"
#include "vm/vm.h"

/* The default streams cannot be destroyed: the call fails, and they must be asked as before. */
void serve_stream_gone(uint64_t stream) {
    if (stream <= STREAM_PER_THREAD)
        return;
    async_stream_gone(stream);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct vm *vm = device_vm_at(i);
        if (vm)
            vm_stream_gone(vm, stream);
    }
}

void serve_capture_prepare(void) {
    real_cuCtxGetDevice_t get_device = REAL(cuCtxGetDevice);
    CUdevice index = 0;
    struct vm *vm = get_device && get_device(&index) == CUDA_SUCCESS && index >= 0
                        ? device_vm_at((unsigned)index)
                        : NULL;
    if (!vm)
        return;
    vm_capture_prepare(vm);
    async_capture_prepare((unsigned)index);
}

void serve_capture_begin(void) {
    vm_capture_begin();
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct vm *vm = device_vm_at(i);
        if (vm)
            vm_pin_live(vm);
    }
}

void serve_reset(struct device *device) {
    async_reset(device);
    atomic_store(&device->paging.vm,
                 NULL); /* its books are few and stay: another thread may read */
    atomic_store(&device->paging.changes_seen, 0);
    gauge_set(&device->out->stats.page_bytes, 0);
    gauge_set(&device->out->stats.spilled_bytes, 0);
    atomic_store(&device->paging.tried, false);
    peer_access_reset(device_index(device));
    cached_handles_reset(device);
    reclaim_reset(device);
}

void serve_forget(void) {
    async_forget();
    cached_handles_forget();
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        vm_forget(device ? device_vm(device) : NULL);
    }
}
