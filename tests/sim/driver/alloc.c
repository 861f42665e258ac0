/* How the plain allocation calls get memory. As on a card, requests of 1 MiB and more have pages of
 * their own; smaller ones are cut, in units of 512 bytes, out of pages that they share. */
#include "hard.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { UNIT_BYTES = 512, UNITS = 2 << 20 >> 9 };
#define SMALL_BYTES ((size_t)1 << 20)

struct slab {
    struct slab *next;
    struct context *context;
    struct phys *phys;
    uintptr_t base;
    unsigned used_units;
    uint8_t taken[UNITS]; /* A byte per unit is plain and fast enough. */
};

static struct { struct slab *slabs; } alloc;

static void set_access(struct block *block) {
    for (int i = 0; i < MAX_DEVICES; i++)
        block->access[i] = ACCESS_ALL; /* Peers see plain allocations; pools ask first. */
}

static struct block *own(enum block_kind kind, struct context *context, uintptr_t base,
                         size_t bytes) {
    struct block *block = block_new(kind, base, bytes);
    block->context = context;
    block->device = context->device;
    set_access(block);
    return block;
}

static CUresult allocate_pages(struct context *context, size_t bytes, struct block **out) {
    struct device *device = context->device;
    struct phys *phys = phys_take(device, bytes);
    if (phys == NULL && pool_give_way(device))
        phys = phys_take(device, bytes);
    if (phys == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t base = space_take(bytes, PAGE_BYTES);
    if (base != 0 && !tables_take(device, base, bytes)) {
        space_give_back(base, bytes);
        base = 0;
    }
    if (base == 0) {
        phys_give_back(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = own(BLOCK_DEVICE, context, base, bytes);
    (*out)->phys = phys;
    (*out)->phys_base = base;
    phys->mappings = 1;
    return CUDA_SUCCESS;
}

/* First run of free units that is long enough, or -1. */
static int slab_fit(const struct slab *slab, unsigned units) {
    unsigned run = 0;
    if (UNITS - slab->used_units < units)
        return -1;
    for (unsigned i = 0; i < UNITS; i++) {
        run = slab->taken[i] ? 0 : run + 1;
        if (run == units)
            return (int)(i + 1 - units);
    }
    return -1;
}

static struct slab *slab_new(struct context *context) {
    struct slab *slab = calloc(1, sizeof *slab);
    struct phys *phys = phys_take(context->device, PAGE_BYTES);
    if (phys == NULL && pool_give_way(context->device))
        phys = phys_take(context->device, PAGE_BYTES);
    uintptr_t base = slab != NULL && phys != NULL ? space_take(PAGE_BYTES, PAGE_BYTES) : 0;
    if (base == 0) {
        if (phys != NULL)
            phys_give_back(phys);
        free(slab);
        return NULL;
    }
    phys->mappings = 1;
    *slab = (struct slab){alloc.slabs, context, phys, base, 0, {0}};
    alloc.slabs = slab;
    return slab;
}

static void slab_delete(struct slab *slab) {
    struct slab **link = &alloc.slabs;
    while (*link != slab)
        link = &(*link)->next;
    *link = slab->next;
    space_give_back(slab->base, PAGE_BYTES);
    slab->phys->mappings = 0;
    phys_give_back(slab->phys);
    free(slab);
}

static struct block *slab_cut(struct slab *slab, int first, unsigned units, size_t bytes) {
    memset(slab->taken + first, 1, units);
    slab->used_units += units;
    struct block *block =
        own(BLOCK_SMALL, slab->context, slab->base + (size_t)first * UNIT_BYTES, bytes);
    block->phys = slab->phys;
    block->phys_base = slab->base;
    block->slab = slab;
    return block;
}

static CUresult allocate_small(struct context *context, size_t bytes, struct block **out) {
    unsigned units = (unsigned)(ALIGN_UP(bytes, UNIT_BYTES) / UNIT_BYTES);
    struct slab *slab = alloc.slabs;
    int first = -1;
    for (; slab != NULL; slab = slab->next)
        if (slab->context == context && (first = slab_fit(slab, units)) >= 0)
            break;
    if (slab == NULL) {
        slab = slab_new(context);
        first = 0;
    }
    if (slab == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = slab_cut(slab, first, units, bytes);
    return CUDA_SUCCESS;
}

CUresult allocate_device(struct context *context, size_t bytes, struct block **out) {
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_refuses(context->device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes < SMALL_BYTES)
        return allocate_small(context, bytes, out);
    return allocate_pages(context, bytes, out);
}

CUresult allocate_host(struct context *context, enum block_kind kind, size_t bytes,
                       struct block **out) {
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *host = mmap(NULL, ALIGN_UP(bytes, 4096), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = own(kind, context, (uintptr_t)host, bytes);
    return CUDA_SUCCESS;
}

static void release_small(struct block *block) {
    struct slab *slab = block->slab;
    size_t first = (block->at.base - slab->base) / UNIT_BYTES;
    unsigned units = (unsigned)(ALIGN_UP(block->at.size_bytes, UNIT_BYTES) / UNIT_BYTES);
    memset(slab->taken + first, 0, units);
    slab->used_units -= units;
    if (slab->used_units == 0)
        slab_delete(slab);
}

static void release_pages(struct block *block) {
    space_give_back(block->at.base, block->at.size_bytes);
    block->phys->mappings--;
    phys_give_back(block->phys);
}

void release_block(struct block *block) {
    if (block->array != 0)
        array_forget(block->array);
    switch (block->kind) {
    case BLOCK_SMALL:
        release_small(block);
        break;
    case BLOCK_DEVICE:
        release_pages(block);
        break;
    case BLOCK_HOST:
    case BLOCK_MANAGED:
        munmap((void *)block->at.base, ALIGN_UP(block->at.size_bytes, 4096));
        break;
    case BLOCK_POOL:
        pool_free_now(block);
        return; /* The pool deletes the record. */
    case BLOCK_IMPORTED:
        ipc_release(block);
        break;
    case BLOCK_MAPPING:
    case BLOCK_REGISTERED:
        break;
    }
    block_delete(block);
}
