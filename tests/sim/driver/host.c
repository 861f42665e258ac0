/* Physical memory that lies with the host: handles of cuMemCreate located there. A device reaches
 * it over the host link; it never counts as memory of a device. The CPU sees it at the mapped
 * address only where cuMemSetAccess let it in. */
#include "memory.h"
#include "simgpu.h"

#include <stdlib.h>
#include <sys/mman.h>

static struct { size_t used_bytes; } host;

bool location_is_host(const CUmemLocation *location) {
    return location->type == CU_MEM_LOCATION_TYPE_HOST ||
           location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* As documented since 12.2 for a NUMA node, since 13.0 for any. This machine counts as one without
 * NUMA, where the node must be 0. */
CUresult host_location_check(const CUmemAllocationProp *prop) {
    bool any = prop->location.type == CU_MEM_LOCATION_TYPE_HOST;
    if (sim.config.driver_version < (any ? 13000 : 12020))
        return CUDA_ERROR_INVALID_VALUE;
    if (any ? prop->requestedHandleTypes != 0 : prop->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return sim.config.host_vmm ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static bool has_room(size_t bytes) {
    size_t limit = sim.config.host_mem_bytes;
    return limit == 0 || (bytes <= limit && host.used_bytes <= limit - bytes);
}

/* Shared, so that the same pages can be seen at a second address. */
struct phys *phys_take_host(size_t bytes) {
    struct phys *phys = has_room(bytes) ? calloc(1, sizeof *phys) : NULL;
    if (phys == NULL)
        return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(phys);
        return NULL;
    }
    madvise(memory, bytes, MADV_DONTFORK);
    phys->view = memory;
    phys->page_count = (uint32_t)(bytes / PAGE_BYTES);
    host.used_bytes += bytes;
    return phys;
}

void phys_give_back_host(struct phys *phys) {
    size_t bytes = (size_t)phys->page_count * PAGE_BYTES;
    munmap(phys->view, bytes);
    host.used_bytes -= bytes;
}

size_t simgpu_host_bytes(void) {
    size_t bytes = 0;
    if (sim_begin(NEED_INIT) != CUDA_SUCCESS)
        return 0;
    bytes = host.used_bytes;
    sim_end(__func__, CUDA_SUCCESS);
    return bytes;
}

/* Lets the CPU in, as far as the bits allow, or keeps it out again. */
void host_view(struct block *block, unsigned bits) {
    void *at = (void *)block->at.base;
    size_t bytes = block->at.size_bytes;
    if (bits == block->host_access)
        return;
    if (bits == ACCESS_NONE) {
        if (mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            abort();
    } else {
        if (block->host_access == ACCESS_NONE &&
            mremap(block->phys->view, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
            abort();
        mprotect(at, bytes, bits & ACCESS_WRITE ? PROT_READ | PROT_WRITE : PROT_READ);
        madvise(at, bytes, MADV_DONTFORK);
    }
    block->host_access = (uint8_t)bits;
}
