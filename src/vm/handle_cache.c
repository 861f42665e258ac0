/* handle_cache.c: physical memory without a place: handles cached for the next block, by size.
 * Caching one must never fail, so there is always room for all handles there are. */
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

static void taken(struct vm *vm, size_t npages) {
    vm->cached_count -= npages;
    vm->cached_least = min_u64(vm->cached_least, vm->cached_count);
}

static uint64_t take(struct vm *vm, size_t size) {
    struct handles *handles = &vm->cached[size];
    if (!handles->count)
        return vm_prefetch_take(vm, extent_npages[size]);
    taken(vm, extent_npages[size]);
    return handles->list[--handles->count];
}

uint64_t vm_prefetch_take(struct vm *vm, size_t npages) {
    struct handles *handles = &vm->cached[extent_size_index(npages)];
    uint64_t handle = handles->prefetched;
    handles->prefetched = 0;
    if (handle)
        taken(vm, npages);
    return handle;
}

void vm_prefetch_put(struct vm *vm, uint64_t handle, size_t npages) {
    vm->cached[extent_size_index(npages)].prefetched = handle;
    vm->cached_count += npages;
}

uint64_t vm_cache_take(struct vm *vm, size_t most, size_t *npages) {
    for (size_t size = EXTENT_SIZES; size-- > 0;) {
        if (!vm->cached[size].count || extent_npages[size] > most)
            continue;
        *npages = extent_npages[size];
        return take(vm, size);
    }
    return 0;
}

void vm_cache_put(struct vm *vm, uint64_t handle, size_t npages) {
    struct handles *handles = &vm->cached[extent_size_index(npages)];
    if (vm_is_spilled(handle)) {
        vm_spill_ends(vm, handle);
        return;
    }
    handles->list[handles->count++] = handle;
    vm->cached_count += npages;
}

uint64_t vm_handle_create(struct vm *vm, size_t npages) {
    CUmemAllocationProp properties = vm_properties(vm->device);
    CUmemGenericAllocationHandle handle = 0;
    struct handles *handles = &vm->cached[extent_size_index(npages)];
    lock_take(&vm->lock);
    bool room = make_room(handles);
    handles->total += room;
    vm->handle_count += room ? npages : 0;
    lock_give(&vm->lock);
    bool created =
        room && REAL(cuMemCreate)(&handle, npages * PAGE_BYTES, &properties, 0) == CUDA_SUCCESS;
    vm_called(vm);
    lock_take(&vm->lock);
    handles->total -= room && !created;
    vm->handle_count -= room && !created ? npages : 0;
    vm->figures.creates += created ? npages : 0;
    vm->under_pressure = vm->under_pressure || !created;
    vm_changed(vm);
    lock_give(&vm->lock);
    return created ? handle : 0;
}

/* The size of the largest cached extent of at most `want` pages, else of the smallest beyond that;
 * EXTENT_SIZES: none is cached that is larger than `larger`. */
static size_t to_release(const struct vm *vm, size_t want, size_t larger) {
    size_t best = EXTENT_SIZES;
    for (size_t size = EXTENT_SIZES; size-- > 0;)
        if ((vm->cached[size].count || vm->cached[size].prefetched) &&
            extent_npages[size] > larger && (best == EXTENT_SIZES || extent_npages[best] > want))
            best = size;
    return best;
}

/* Until the driver has it back it is neither cached nor free: others know that it is on its way. */
static size_t release_one(struct vm *vm, size_t want, size_t larger) {
    lock_take(&vm->lock);
    size_t size = to_release(vm, want, larger);
    size_t npages = size < EXTENT_SIZES ? extent_npages[size] : 0;
    uint64_t handle = npages ? take(vm, size) : 0;
    vm->in_flight += npages;
    lock_give(&vm->lock);
    if (!npages)
        return 0;
    REAL(cuMemRelease)(handle);
    vm_called(vm);
    lock_take(&vm->lock);
    vm->cached[size].total--;
    vm->handle_count -= npages;
    vm->in_flight -= npages;
    vm->landed++;
    vm->figures.releases += npages;
    vm_changed(vm);
    lock_give(&vm->lock);
    return npages;
}

size_t vm_cache_trim(struct vm *vm, size_t want, size_t larger) {
    size_t released = 0, npages = 1;
    if (want)
        vm_prefetch_cancel(vm);
    while (released < want && npages) {
        npages = release_one(vm, want - released, larger);
        released += npages;
    }
    return released;
}

/* Others' memory comes and goes as well; what is wrong for so long costs a call that is refused. */
#define STALE_NS (2 * MILLISECOND_NS)

static struct room room_now(const struct vm *vm) {
    const struct asked *asked = &vm->asked;
    uint64_t free_bytes = asked->free_bytes + asked->handle_count * PAGE_BYTES;
    return (struct room){
        .under_pressure = vm->under_pressure,
        .free_bytes = minus_u64(free_bytes, vm->handle_count * PAGE_BYTES),
        .idle_bytes = (vm->cached_count + vm->table.idle_pages) * PAGE_BYTES,
        .total_bytes = asked->total_bytes,
    };
}

struct room vm_room(struct vm *vm) {
    uint64_t now_ns = clock_ns();
    struct asked asked = {.time_ns = now_ns};
    lock_take(&vm->lock);
    bool stale = now_ns - vm->asked.time_ns > STALE_NS;
    asked.handle_count = vm->handle_count;
    struct room room = room_now(vm);
    lock_give(&vm->lock);
    if (!stale)
        return room;
    if (REAL(cuMemGetInfo_v2)(&asked.free_bytes, &asked.total_bytes) != CUDA_SUCCESS)
        asked.free_bytes = asked.total_bytes = 0;
    lock_take(&vm->lock);
    vm->asked = asked;
    room = room_now(vm);
    lock_give(&vm->lock);
    return room;
}
