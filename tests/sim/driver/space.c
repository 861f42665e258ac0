/* The devices' address space: large reservations of host addresses without access, so that no host
 * pointer can equal a device pointer and the CPU can't touch device memory. Ranges given back are
 * used again, lowest address first, so that a stale pointer soon points at something else. */
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#define REGION_BYTES ((size_t)64 << 30)

static struct {
    struct range *regions; /* What was reserved from the host. */
    struct range *holes;   /* Parts of it that nobody has. */
} space;

static struct range *range_new(struct range **root, uintptr_t base, size_t bytes) {
    struct range *range = calloc(1, sizeof *range);
    if (range == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    range->base = base;
    range->size_bytes = bytes;
    ranges_insert(root, range);
    return range;
}

static void hole_delete(struct range *hole) {
    ranges_remove(&space.holes, hole);
    free(hole);
}

/* The first page of a region is never given out: an address just below an allocation is the
 * device's as well. */
static bool region_add(size_t bytes) {
    size_t wanted = bytes + 2 * PAGE_BYTES;
    if (wanted < REGION_BYTES)
        wanted = REGION_BYTES;
    void *host = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED && wanted > bytes + 2 * PAGE_BYTES) {
        wanted = bytes + 2 * PAGE_BYTES;
        host = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (host == MAP_FAILED)
        return false;
    uintptr_t base = ALIGN_UP((uintptr_t)host + 1, PAGE_BYTES);
    size_t usable = ((uintptr_t)host + wanted - base) / PAGE_BYTES * PAGE_BYTES;
    range_new(&space.regions, (uintptr_t)host, wanted);
    range_new(&space.holes, base, usable);
    return true;
}

/* Cuts [base, base + bytes) out of a hole that contains it. */
static void hole_cut(struct range *hole, uintptr_t base, size_t bytes) {
    uintptr_t hole_end = hole->base + hole->size_bytes;
    uintptr_t end = base + bytes;
    if (base > hole->base)
        hole->size_bytes = base - hole->base;
    else
        hole_delete(hole);
    if (end < hole_end)
        range_new(&space.holes, end, hole_end - end);
}

static uintptr_t take_from_holes(size_t bytes, size_t alignment) {
    struct range *hole = ranges_above(space.holes, 0);
    for (; hole != NULL; hole = ranges_above(space.holes, hole->base)) {
        uintptr_t base = ALIGN_UP(hole->base, alignment);
        if (base - hole->base <= hole->size_bytes &&
            hole->size_bytes - (base - hole->base) >= bytes) {
            hole_cut(hole, base, bytes);
            return base;
        }
    }
    return 0;
}

uintptr_t space_take(size_t bytes, size_t alignment) {
    bytes = ALIGN_UP(bytes, PAGE_BYTES);
    alignment = alignment > PAGE_BYTES ? alignment : PAGE_BYTES;
    if (bytes == 0 || bytes > (size_t)1 << 46 || alignment > (size_t)1 << 40)
        return 0;
    uintptr_t base = take_from_holes(bytes, alignment);
    if (base == 0 && region_add(bytes + alignment))
        base = take_from_holes(bytes, alignment);
    return base;
}

uintptr_t space_take_at(uintptr_t hint, size_t bytes) {
    bytes = ALIGN_UP(bytes, PAGE_BYTES);
    struct range *hole = ranges_find(space.holes, hint);
    if (hint % PAGE_BYTES != 0 || hole == NULL || hole->base + hole->size_bytes - hint < bytes)
        return 0;
    hole_cut(hole, hint, bytes);
    return hint;
}

void space_give_back(uintptr_t base, size_t bytes) {
    bytes = ALIGN_UP(bytes, PAGE_BYTES);
    struct range *before = base > 0 ? ranges_floor(space.holes, base - 1) : NULL;
    struct range *after = ranges_floor(space.holes, base + bytes);
    if (after != NULL && after->base == base + bytes) {
        bytes += after->size_bytes;
        hole_delete(after);
    }
    if (before != NULL && before->base + before->size_bytes == base)
        before->size_bytes += bytes;
    else
        range_new(&space.holes, base, bytes);
}

bool space_owns(uintptr_t address) {
    return ranges_find(space.regions, address) != NULL;
}
