/* device_vm.h: mode compact: the page engine of a device behind PyTorch's allocator. Without that
 * mode, or where the device failed the probe, all of these do nothing. */
#pragma once

#include "track/block.h"
#include "track/device.h"

/* Opens it if that has not been tried yet, in a thread whose context is the device's. NULL: mode
 * compact is not wanted, or the device cannot do it. Nothing is captured: the probe writes. */
struct vm *device_vm_open(struct device *device);

/* The same in mode flush, for steps of such properties (vm/steps.c); it writes nothing. */
struct vm *device_steps_open(struct device *device, const CUmemAllocationProp *properties);

/* Between block_begin and block_end: the pages of a block come before it reaches its user, and may
 * go when it is free. False: it cannot have memory. No lock is held. */
bool device_vm_block_changed(const struct block_event *event);
