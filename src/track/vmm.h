/* vmm.h: virtual memory management: what the figures and the shadow heap hear of the calls that
 * make physical memory, map it, and reserve addresses. The records are those of vm/book.h.
 * allocator: the caller is PyTorch's caching allocator. */
#pragma once

#include "cuda/real.h"
#include "vm/book.h"

struct device;

/* Physical memory was made, or imported. step: made by who answers an allocation of the program's,
 * as comfy-aimdo in a model's step. */
void vmm_created(uint64_t handle, uint64_t bytes, const CUmemAllocationProp *properties,
                 bool allocator, bool step);
void vmm_imported(uint64_t handle);

/* Before cuMemRelease; the driver refused. */
struct book_release vmm_release_begin(uint64_t handle);
void vmm_release_abort(const struct book_release *release);

/* False: no memory for the books. */
bool vmm_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
struct book_unmapping vmm_unmap_begin(uint64_t address, uint64_t bytes);
void vmm_unmap_abort(const struct book_unmapping *unmapping);

/* Returns the bytes of virtual handles that had been released, and went with it. */
uint64_t vmm_unmap_commit(const struct book_unmapping *unmapping);

/* PyTorch's allocator has reserved addresses for its expandable segments; others' reservations are
 * allocations of CLASS_ADDRESS only. engine: as in the book. False: no memory for the books, it
 * must not be had. */
bool vmm_range_add(uint64_t address, uint64_t bytes, unsigned engine);

/* Taken out before cuMemAddressFree, and put back should the driver refuse. */
struct book_range vmm_range_free_begin(uint64_t address);
void vmm_range_free_abort(const struct book_range *range);
void vmm_range_free_commit(const struct book_range *range);
