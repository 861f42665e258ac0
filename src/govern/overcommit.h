/* overcommit.h: mode compact: keeps what PyTorch's cache holds in addresses near what the device
 * has in memory. */
#ifndef OVERCOMMIT_H
#define OVERCOMMIT_H

#include "vm/vm.h"
#include "track/device.h"

/* A segment of PyTorch's native allocator is about to be granted, in its thread: whether it is to
 * be refused instead, once, so that PyTorch gives up what it does not use and asks again. Where it
 * would give up more than is needed our own thread is asked to empty the cache, if it can. */
bool overcommit_fails(struct device *device, struct vm *vm, uint64_t bytes);

/* The same for what PyTorch maps into an expandable segment, bytes for one block so far. Refused as
 * if the device had no more: PyTorch gives up all that it does not use and asks again. */
bool overcommit_fails_mapping(struct device *device, struct vm *vm, uint64_t bytes);

#endif
