/* memory.c: physical memory without a place: 2 MiB handles kept for the next block. Keeping one
 * must never fail, so there is always room for all handles there are. */
#include "pages/internal.h"

#include <string.h>

static bool make_room(struct pages *pages) {
    if (pages->handle_count < pages->kept_capacity)
        return true;
    size_t capacity = pages->kept_capacity ? pages->kept_capacity * 2 : 4096;
    uint64_t *larger = memory_map(capacity * sizeof *larger);
    if (!larger)
        return false;
    if (pages->kept_count)
        memcpy(larger, pages->kept, pages->kept_count * sizeof *larger);
    memory_unmap(pages->kept, pages->kept_capacity * sizeof *larger);
    pages->kept = larger;
    pages->kept_capacity = capacity;
    return true;
}

uint64_t pages_take_kept(struct pages *pages) {
    lock_take(&pages->lock);
    uint64_t handle = pages->kept_count ? pages->kept[--pages->kept_count] : 0;
    lock_give(&pages->lock);
    return handle;
}

void pages_keep(struct pages *pages, uint64_t handle) {
    if (pages_is_spilled(handle))
        pages_spill_ends(pages, handle);
    else
        pages->kept[pages->kept_count++] = handle;
}

uint64_t pages_create(struct pages *pages) {
    CUmemAllocationProp properties = pages_properties(pages->device);
    CUmemGenericAllocationHandle handle = 0;
    lock_take(&pages->lock);
    bool room = make_room(pages);
    pages->handle_count += room;
    lock_give(&pages->lock);
    bool created = room && REAL(cuMemCreate)(&handle, PAGE_BYTES, &properties, 0) == CUDA_SUCCESS;
    lock_take(&pages->lock);
    pages->handle_count -= room && !created;
    pages->figures.creates += created;
    lock_give(&pages->lock);
    return created ? handle : 0;
}

/* Until the driver has it back it is neither kept nor free: others know that it is on its way. */
static bool release_one(struct pages *pages) {
    lock_take(&pages->lock);
    uint64_t handle = pages->kept_count ? pages->kept[--pages->kept_count] : 0;
    pages->moving += handle != 0;
    lock_give(&pages->lock);
    if (!handle)
        return false;
    REAL(cuMemRelease)(handle);
    lock_take(&pages->lock);
    pages->handle_count--;
    pages->moving--;
    pages->moved++;
    pages->figures.releases++;
    lock_give(&pages->lock);
    return true;
}

size_t pages_release(struct pages *pages, size_t want) {
    size_t released = 0;
    while (released < want && release_one(pages))
        released++;
    return released;
}
