/* vmm_range.h: addresses that PyTorch's caching allocator has reserved for its expandable segments.
 * Others' reservations are allocations of CLASS_ADDRESS only. */
#pragma once

#include "base/base.h"

struct vmm_range {
    uint64_t address, bytes; /* bytes 0: there is none */
    unsigned device;         /* whose heap has it; VRAMGC_MAX_DEVICES: none has */
    unsigned engine;         /* whose page engine has it; VRAMGC_MAX_DEVICES: none yet */
};

/* False: no memory for the books, it must not be had. */
bool vmm_range_add(uint64_t address, uint64_t bytes);

/* Of the largest there was so far. */
uint64_t vmm_range_largest_bytes(void);

/* The range that holds the address; and it is one of a page engine from now on. */
struct vmm_range vmm_range_lookup(uint64_t address);
void vmm_range_enter(const struct vmm_range *range, unsigned engine);

/* Taken out before cuMemAddressFree, and put back should the driver refuse. */
struct vmm_range vmm_range_free_begin(uint64_t address);
void vmm_range_free_abort(const struct vmm_range *range);
void vmm_range_free_commit(const struct vmm_range *range);

/* A device was reset: addresses stay reserved. */
void vmm_range_reset(unsigned device);

/* What the shadow heap is told when PyTorch maps and unmaps pages: [address, +bytes) was mapped, or
 * is about to be unmapped. Other addresses than those of PyTorch's segments change nothing. */
void vmm_pages_changed(uint64_t address, uint64_t bytes, bool map);
