/* handle_cache.c: physical memory without a place: handles kept for the next block, by size. Keeping one
 * must never fail, so there is always room for all handles there are. */
#include "vm/vm_internal.h"

static bool make_room(struct handles *handles) {
    if (handles->total < handles->capacity)
        return true;
    size_t capacity = handles->capacity ? handles->capacity * 2 : 4096;
    uint64_t *larger =
        memory_grow(handles->list, handles->capacity * sizeof *larger, capacity * sizeof *larger);
    if (!larger)
        return false;
    handles->list = larger;
    handles->capacity = capacity;
    return true;
}

static void taken(struct pages *pages, size_t span) {
    pages->kept_count -= span;
    pages->kept_least = min_u64(pages->kept_least, pages->kept_count);
}

static uint64_t take(struct pages *pages, size_t size) {
    struct handles *handles = &pages->kept[size];
    if (!handles->count)
        return pages_take_spare(pages, page_spans[size]);
    taken(pages, page_spans[size]);
    return handles->list[--handles->count];
}

uint64_t pages_take_spare(struct pages *pages, size_t span) {
    struct handles *handles = &pages->kept[page_size_index(span)];
    uint64_t handle = handles->spare;
    handles->spare = 0;
    if (handle)
        taken(pages, span);
    return handle;
}

void pages_keep_spare(struct pages *pages, uint64_t handle, size_t span) {
    pages->kept[page_size_index(span)].spare = handle;
    pages->kept_count += span;
}

uint64_t pages_take_kept(struct pages *pages, size_t most, size_t *span) {
    for (size_t size = PAGE_SIZES; size-- > 0;) {
        if (!pages->kept[size].count || page_spans[size] > most)
            continue;
        *span = page_spans[size];
        return take(pages, size);
    }
    return 0;
}

void pages_keep(struct pages *pages, uint64_t handle, size_t span) {
    struct handles *handles = &pages->kept[page_size_index(span)];
    if (pages_is_spilled(handle)) {
        pages_spill_ends(pages, handle);
        return;
    }
    handles->list[handles->count++] = handle;
    pages->kept_count += span;
}

uint64_t pages_create(struct pages *pages, size_t span) {
    CUmemAllocationProp properties = pages_properties(pages->device);
    CUmemGenericAllocationHandle handle = 0;
    struct handles *handles = &pages->kept[page_size_index(span)];
    lock_take(&pages->lock);
    bool room = make_room(handles);
    handles->total += room;
    pages->handle_count += room ? span : 0;
    lock_give(&pages->lock);
    bool created =
        room && REAL(cuMemCreate)(&handle, span * PAGE_BYTES, &properties, 0) == CUDA_SUCCESS;
    pages_called(pages);
    lock_take(&pages->lock);
    handles->total -= room && !created;
    pages->handle_count -= room && !created ? span : 0;
    pages->figures.creates += created ? span : 0;
    pages->scarce = pages->scarce || !created;
    pages_changed(pages);
    lock_give(&pages->lock);
    return created ? handle : 0;
}

/* The size of the largest kept piece of at most `want` pages, else of the smallest beyond that;
 * PAGE_SIZES: none is kept that is larger than `larger`. */
static size_t to_release(const struct pages *pages, size_t want, size_t larger) {
    size_t best = PAGE_SIZES;
    for (size_t size = PAGE_SIZES; size-- > 0;)
        if ((pages->kept[size].count || pages->kept[size].spare) && page_spans[size] > larger &&
            (best == PAGE_SIZES || page_spans[best] > want))
            best = size;
    return best;
}

/* Until the driver has it back it is neither kept nor free: others know that it is on its way. */
static size_t release_one(struct pages *pages, size_t want, size_t larger) {
    lock_take(&pages->lock);
    size_t size = to_release(pages, want, larger);
    size_t span = size < PAGE_SIZES ? page_spans[size] : 0;
    uint64_t handle = span ? take(pages, size) : 0;
    pages->moving += span;
    lock_give(&pages->lock);
    if (!span)
        return 0;
    REAL(cuMemRelease)(handle);
    pages_called(pages);
    lock_take(&pages->lock);
    pages->kept[size].total--;
    pages->handle_count -= span;
    pages->moving -= span;
    pages->moved++;
    pages->figures.releases += span;
    pages_changed(pages);
    lock_give(&pages->lock);
    return span;
}

size_t pages_release(struct pages *pages, size_t want, size_t larger) {
    size_t released = 0, span = 1;
    if (want)
        pages_want_no_spare(pages);
    while (released < want && span) {
        span = release_one(pages, want - released, larger);
        released += span;
    }
    return released;
}

/* Others' memory comes and goes as well; what is wrong for so long costs a call that is refused. */
#define STALE_NS (2 * MILLISECOND_NS)

static struct room room_now(const struct pages *pages) {
    const struct asked *asked = &pages->asked;
    uint64_t free_bytes = asked->free_bytes + asked->handle_count * PAGE_BYTES;
    return (struct room){
        .scarce = pages->scarce,
        .free_bytes = minus_u64(free_bytes, pages->handle_count * PAGE_BYTES),
        .idle_bytes = (pages->kept_count + pages->table.idle_pages) * PAGE_BYTES,
        .total_bytes = asked->total_bytes,
    };
}

struct room pages_room(struct pages *pages) {
    uint64_t now_ns = clock_ns();
    struct asked asked = {.time_ns = now_ns};
    lock_take(&pages->lock);
    bool stale = now_ns - pages->asked.time_ns > STALE_NS;
    asked.handle_count = pages->handle_count;
    struct room room = room_now(pages);
    lock_give(&pages->lock);
    if (!stale)
        return room;
    if (REAL(cuMemGetInfo_v2)(&asked.free_bytes, &asked.total_bytes) != CUDA_SUCCESS)
        asked.free_bytes = asked.total_bytes = 0;
    lock_take(&pages->lock);
    pages->asked = asked;
    room = room_now(pages);
    lock_give(&pages->lock);
    return room;
}
