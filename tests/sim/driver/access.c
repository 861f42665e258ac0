/* What happens when an operation touches memory: the check a card's MMU would make, and the moving
 * of bytes. Device addresses are translated page by page; host addresses are used as they are. */
#include "memory.h"

#include <string.h>

static struct block *block_at(uintptr_t address) {
    struct block *block = block_find(address);
    return block != NULL ? block : pool_chunk_block(address);
}

/* Copies reach every device's plain memory, through the host if need be; kernels only after
 * cuCtxEnablePeerAccess. Mapped memory nobody reaches but whom cuMemSetAccess let in. */
static bool is_reachable(const struct block *block, const struct access *access) {
    bool plain =
        block->kind == BLOCK_DEVICE || block->kind == BLOCK_SMALL || block->kind == BLOCK_IMPORTED;
    if (!access->by_kernel || !plain || block->device == access->device)
        return true;
    return access->context->peers & 1u << block->device->ordinal;
}

static bool block_allows(const struct block *block, const struct access *access) {
    unsigned wanted = access->write ? ACCESS_WRITE : ACCESS_READ;
    return (block->access[access->device->ordinal] & wanted) && is_reachable(block, access);
}

bool access_allowed(const struct access *access, uintptr_t base, size_t bytes) {
    uintptr_t end = base + bytes;
    while (base < end) {
        struct block *block = block_at(base);
        if (block == NULL) /* Pageable host memory: at the program's own risk, and for copies. */
            return !access->by_kernel && !space_owns(base);
        if (!block_allows(block, access))
            return false;
        base = block->at.base + block->at.size_bytes;
    }
    return true;
}

bool address_is_device(uintptr_t address) {
    return space_owns(address);
}

size_t bytes_with_host(uintptr_t base, size_t bytes) {
    uintptr_t end = base + bytes;
    size_t sum = 0;
    while (base < end) {
        struct block *block = block_find(base);
        if (block == NULL)
            return sum;
        uintptr_t next = block->at.base + block->at.size_bytes;
        if (block->kind == BLOCK_MAPPING && block->phys->device == NULL)
            sum += (next < end ? next : end) - base;
        base = next;
    }
    return sum;
}

bool address_is_pinned(uintptr_t address) {
    struct block *block = block_find(address);
    return block != NULL && block_is_host(block);
}

bool range_is_owned(uintptr_t base, size_t bytes) {
    struct block *block = block_find(base);
    if (block == NULL)
        return !space_owns(base);
    while (base - block->at.base + bytes > block->at.size_bytes) {
        if (block->kind != BLOCK_MAPPING && block->kind != BLOCK_REGISTERED)
            return block_is_host(block); /* A host copy may run on into other memory. */
        uintptr_t end = block->at.base + block->at.size_bytes;
        bytes -= end - base;
        base = end;
        block = block_find(base);
        if (block == NULL)
            return !space_owns(base);
    }
    return true;
}

/* Host bytes behind an address and how many of them are contiguous. */
static uint8_t *locate(uintptr_t address, size_t *run_bytes) {
    *run_bytes = SIZE_MAX;
    if (!space_owns(address))
        return (uint8_t *)address;
    struct block *block = block_at(address);
    if (block == NULL)
        return NULL;
    return phys_bytes(block->phys, address - block->phys_base, run_bytes);
}

static uint8_t *locate_to_write(uintptr_t address, size_t *run_bytes) {
    if (space_owns(address)) {
        struct block *block = block_at(address);
        if (block != NULL)
            phys_mark_dirty(block->phys, address - block->phys_base, 1);
    }
    return locate(address, run_bytes);
}

static size_t least(size_t a, size_t b, size_t c) {
    size_t two = a < b ? a : b;
    return two < c ? two : c;
}

void bytes_copy(uintptr_t to, uintptr_t from, size_t bytes) {
    while (bytes > 0) {
        size_t to_run, from_run;
        uint8_t *destination = locate_to_write(to, &to_run);
        const uint8_t *source = locate(from, &from_run);
        if (destination == NULL || source == NULL)
            return; /* Checked before; only an unmapping meanwhile leads here. */
        size_t run = least(bytes, to_run, from_run);
        memmove(destination, source, run);
        to += run;
        from += run;
        bytes -= run;
    }
}

static void fill_run(uint8_t *at, const uint8_t *pattern, size_t pattern_bytes, size_t bytes) {
    if (pattern_bytes == 1) {
        memset(at, pattern[0], bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern[i % pattern_bytes];
}

void bytes_fill(uintptr_t to, const void *pattern, size_t pattern_bytes, size_t bytes) {
    while (bytes > 0) {
        size_t run_bytes;
        uint8_t *destination = locate_to_write(to, &run_bytes);
        if (destination == NULL)
            return;
        size_t run = run_bytes < bytes ? run_bytes : bytes;
        fill_run(destination, pattern, pattern_bytes, run);
        to += run;
        bytes -= run;
    }
}

size_t bytes_differ(uintptr_t at, uint8_t value, size_t bytes) {
    size_t differ = 0;
    while (bytes > 0) {
        size_t run_bytes;
        const uint8_t *source = locate(at, &run_bytes);
        if (source == NULL)
            return differ + bytes;
        size_t run = run_bytes < bytes ? run_bytes : bytes;
        for (size_t i = 0; i < run; i++)
            differ += source[i] != value;
        at += run;
        bytes -= run;
    }
    return differ;
}
