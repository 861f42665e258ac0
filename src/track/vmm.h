/* vmm.h: virtual memory management: what is said of the calls that reserve addresses, make physical
 * memory and map it. allocator: the caller is PyTorch's caching allocator. */
#ifndef VMM_H
#define VMM_H

#include "track/alloc.h"

/* A virtual handle is a number of ours in the place of physical memory (serve/expandable.h). It is
 * no handle of the driver: on x86-64 and AArch64 no pointer either. */
#define VHANDLE_TAG ((uint64_t)0x7647)

static inline bool vhandle_is(uint64_t handle) {
    return handle >> 48 == VHANDLE_TAG;
}

/* Addresses were reserved; and are about to be freed. */
void vmm_reserved(uint64_t address, uint64_t bytes, bool allocator);
struct alloc_freed vmm_range_free_begin(uint64_t address);
void vmm_range_free_abort(const struct alloc_freed *range);
void vmm_range_free_commit(const struct alloc_freed *range);
void vmm_created(uint64_t handle, uint64_t bytes, const CUmemAllocationProp *properties,
                 bool allocator);
void vmm_imported(uint64_t handle);
void vmm_retained(uint64_t handle, uint64_t address);

/* A reference to physical memory, taken out of the books before cuMemRelease, to be put back should
 * the driver refuse. */
struct vmm_release {
    bool known;
    bool gone; /* it was the last reference, and nothing is mapped: the entry left the books */
    uint16_t flags;
    unsigned device;
    uint64_t handle, bytes;
    uint64_t orphan; /* the last reference, but mapped: the name under which it lives on; or 0 */
};

struct vmm_release vmm_release_begin(uint64_t handle);
void vmm_release_abort(const struct vmm_release *release);

/* The mappings that an unmap took out of the books: so many tickets from the first on. */
struct vmm_unmapping {
    uint64_t address, bytes;
    uint64_t first, count;
};

void vmm_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
struct vmm_unmapping vmm_unmap_begin(uint64_t address, uint64_t bytes);
void vmm_unmap_abort(const struct vmm_unmapping *unmapping);
void vmm_unmap_commit(const struct vmm_unmapping *unmapping);

/* Drops what is known of a device; and for a forked child. */
void vmm_reset(unsigned device);
void vmm_unlock(void);

#endif
