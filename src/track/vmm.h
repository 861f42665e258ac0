/* vmm.h: virtual memory management: what is said of the calls that make physical memory and map it,
 * and what is known of virtual handles. allocator: the caller is PyTorch's caching allocator. */
#pragma once

#include "cuda/real.h"

struct device;

/* A virtual handle is a number of ours in the place of physical memory (serve/expandable.h). It is
 * no handle of the driver: on x86-64 and AArch64 no pointer either. */
#define VHANDLE_TAG ((uint64_t)0x7647)

static inline bool vhandle_is(uint64_t handle) {
    return handle >> 48 == VHANDLE_TAG;
}

/* Physical memory was made, imported, or got one more reference by an address where it is mapped.
 * step: made by who answers an allocation of the program's, as comfy-aimdo in a model's step. */
void vmm_created(uint64_t handle, uint64_t bytes, const CUmemAllocationProp *properties,
                 bool allocator, bool step);
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

/* What the books say of a handle. */
struct vmm_handle {
    unsigned device;
    uint64_t bytes;
    bool held, mapped; /* it has a reference; a mapping */
};

/* In the place of a release: the handle is cached for PyTorch, whose allocator made it, if this is
 * the last reference, nothing is mapped, and no other process may have it. For the books it is held
 * on. *out: device and bytes of it. TWICE: it is cached already. */
enum vmm_cache { VMM_CACHE_NOT, VMM_CACHE_DONE, VMM_CACHE_TWICE };
enum vmm_cache vmm_cache(uint64_t handle, struct vmm_handle *out);

/* It is not cached after all, and released now; PyTorch's allocator got it for a new one. */
void vmm_uncache(const struct vmm_handle *known, uint64_t handle);
void vmm_taken_again(uint64_t handle, uint64_t bytes, struct device *device);

/* Others may have it from now on: another process, a multicast object. */
void vmm_shared(uint64_t handle);

/* The mappings that an unmap took out of the books: so many tickets from the first on. */
struct vmm_unmapping {
    uint64_t address, bytes;
    uint64_t first, count;
};

/* False: no memory for the books. */
bool vmm_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
struct vmm_unmapping vmm_unmap_begin(uint64_t address, uint64_t bytes);
void vmm_unmap_abort(const struct vmm_unmapping *unmapping);
void vmm_unmap_commit(const struct vmm_unmapping *unmapping);

/* Of a virtual handle. False: the books know none. */
bool vmm_handle_lookup(uint64_t handle, struct vmm_handle *out);

/* The mapping of a virtual handle that holds the address. False: there is none. */
struct vmm_mapping {
    uint64_t handle;
    unsigned device;
    uint64_t address, bytes;
};
bool vmm_mapping_lookup(uint64_t address, struct vmm_mapping *out);

/* Whether other code than PyTorch's allocator made the memory at the address, so that it counts
 * there: 0, or VMM_LENT and what else is known. Then whose it is: *library (callers.h). */
enum { VMM_LENT = 1, VMM_FRESH = 2, /* mapped, and not asked for before */ VMM_FOR_STEP = 16 };
unsigned vmm_lent(uint64_t address, unsigned *library);

/* Whether [address, +bytes) is exactly a row of such mappings of that device; whether one begins
 * in there. */
bool vmm_is_row(uint64_t address, uint64_t bytes, unsigned device);
bool vmm_any_inside(uint64_t address, uint64_t bytes);

/* Drops what is known of a device. */
void vmm_reset(unsigned device);
