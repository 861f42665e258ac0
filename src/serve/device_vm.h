/* device_vm.h: mode compact: the page engine of a device behind PyTorch's allocator. Without that
 * mode, or where the device failed the probe, all of these do nothing. */
#ifndef DEVICE_VM_H
#define DEVICE_VM_H

#include "track/device.h"

/* Opens it if that has not been tried yet, in a thread whose context is the device's. NULL: mode
 * compact is not wanted, or the device cannot do it. Nothing is captured: the probe writes. */
struct vm *device_vm_open(struct device *device);

/* A block is handed out: false, it cannot have memory. The device's lock is not held. */
bool device_vm_commit(struct device *device, uint64_t address, uint64_t bytes);

/* It was tried often enough: PyTorch gets an error, and counts the block as allocated for ever. */
void device_vm_commit_failed(struct device *device, uint64_t address, uint64_t bytes);

/* A block is free; streams_done: all streams that used it have finished, but for its own. Calls no
 * driver: the device's lock may be held. */
void device_vm_mark_idle(struct device *device, uint64_t address, uint64_t bytes,
                         bool streams_done);

/* The free bytes that cudaMemGetInfo is to tell. */
uint64_t device_vm_free_as_seen(uint64_t free_bytes);

/* A stream is about to be destroyed. */
void device_vm_stream_gone(uint64_t stream);

/* A capture is about to begin on that device, whose context is current, and does not count as begun
 * yet. */
void device_vm_capture_prepare(unsigned index);

/* A capture begins, and counts as begun: nothing is asked of the GPU any more. */
void device_vm_capture_begin(void);

/* For a forked child. */
void device_vm_forget(void);

/* The device was reset: its memory does not exist any more. */
void device_vm_reset(struct device *device);

#endif
