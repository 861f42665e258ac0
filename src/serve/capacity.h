/* capacity.h: mode compact: whether PyTorch's allocator gets the address space that it asks for. */
#pragma once

#include "track/device.h"

/* The program asks the driver what is free on the current device. */
struct capacity_reading {
    struct device *device; /* NULL: it is told what the driver says */
    struct vm *vm;
    uint64_t before; /* another number after each change of what is held; 0: one is under way */
    int cancel;      /* its thread is not cancelled before the end: it would read for ever */
};

/* PyTorch's allocator asks the driver what is free, and NVML next what this process has: so it does
 * for the error that it reports, in which both stand. What it has given up goes back first. */
void capacity_before_refusal(void);

/* From now on nothing goes back by itself that would make the answer be of another moment. */
struct capacity_reading capacity_reading_begins(void);

/* Without us the card would have so much free for PyTorch, where the driver says that it has *told:
 * that is what cudaMemGetInfo is to tell. */
uint64_t capacity_free_as_seen(const struct capacity_reading *reading, const struct meminfo *told);
void capacity_reading_ends(const struct capacity_reading *reading);

/* True: a request for so many bytes is to be answered with out of memory. asked_again: PyTorch
 * has emptied its cache since it was answered so before, or will not do so: this answer is the
 * last. segment: all of it at once. The device's context is current. */
bool capacity_fails(struct device *device, struct vm *vm, uint64_t bytes, bool asked_again,
                    bool segment);
