/* capacity.h: mode compact: whether PyTorch's allocator gets the address space that it asks for. */
#ifndef CAPACITY_H
#define CAPACITY_H

#include "track/device.h"

/* What the card would have free for PyTorch without us, of so many bytes that the driver says are
 * free on the current device: that is what cudaMemGetInfo is to tell. before: capacity_moves() when
 * the driver was asked. */
uint64_t capacity_free_as_seen(uint64_t free_bytes, uint64_t before);

/* PyTorch's allocator asks the driver what is free, and NVML next what this process has: so it does
 * for the error that it reports, in which both stand. What it has given up goes back first. */
void capacity_before_refusal(void);

/* Another number after each change of what is held; 0: one is under way. */
uint64_t capacity_moves(void);

/* Whether a request for so many bytes is to be answered with out of memory. asked_again: PyTorch
 * has emptied its cache since it was answered so before, or will not do so: this answer is the
 * last. The device's context is current. */
bool capacity_fails(struct device *device, struct vm *vm, uint64_t bytes, bool asked_again);

#endif
