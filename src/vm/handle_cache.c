/* handle_cache.c: physical memory without a place: handles that wait for the next block, by size.
 * Keeping one must never fail, so there is always room for all handles there are. */
#include "vm/vm_internal.h"

/* As many as there are of one page on a device of 256 GiB; they cost memory only where they are
 * used. */
enum { FIRST_CAPACITY = 1 << 17 };

static bool grow(struct handles *handles) {
    if (handles->total < handles->capacity)
        return true;
    size_t capacity = handles->capacity ? handles->capacity * 2 : FIRST_CAPACITY;
    struct cached_handle *larger =
        memory_grow(handles->list, handles->capacity * sizeof *larger, capacity * sizeof *larger);
    if (!larger)
        return false;
    handles->list = larger;
    handles->capacity = capacity;
    return true;
}

bool vm_cache_open(struct vm *vm) {
    bool opened = true;
    for (size_t size = 0; opened && size < EXTENT_SIZES; size++)
        opened = grow(&vm->cache.sizes[size]);
    return opened;
}

/* The one cached last. */
static uint64_t take(struct vm *vm, size_t size) {
    struct handles *handles = &vm->cache.sizes[size];
    vm->cache.cached_pages -= extent_npages(size);
    return handles->list[--handles->count].handle;
}

uint64_t vm_cache_take(struct vm *vm, size_t least, size_t most, size_t *npages) {
    for (size_t size = EXTENT_SIZES; size-- > 0;) {
        if (!vm->cache.sizes[size].count || extent_npages(size) > most ||
            extent_npages(size) < least)
            continue;
        *npages = extent_npages(size);
        return take(vm, size);
    }
    return 0;
}

void vm_cache_put(struct vm *vm, uint64_t handle, size_t npages) {
    struct handles *handles = &vm->cache.sizes[extent_size_index(npages)];
    if (vm_is_spilled(handle)) {
        vm_spill_ends(vm, handle);
        return;
    }
    handles->list[handles->count++] = (struct cached_handle){handle, vm->table.now_ns};
    vm->cache.cached_pages += npages;
}

uint64_t vm_cache_since_ns(const struct vm *vm) {
    uint64_t since_ns = UINT64_MAX;
    for (size_t size = 0; size < EXTENT_SIZES; size++)
        if (vm->cache.sizes[size].count)
            since_ns = min_u64(since_ns, vm->cache.sizes[size].list[0].since_ns);
    return since_ns;
}

size_t vm_cache_pages_since(const struct vm *vm, uint64_t since_ns) {
    size_t pages = 0;
    for (size_t size = 0; size < EXTENT_SIZES; size++) {
        const struct handles *handles = &vm->cache.sizes[size];
        size_t count = 0;
        while (count < handles->count && handles->list[count].since_ns <= since_ns)
            count++;
        pages += count * extent_npages(size);
    }
    return pages;
}

/* Until it ends it is not known what the driver counts. The lock is held. */
static void move_begins(struct vm *vm) {
    vm->cache.moving++;
    vm->cache.moves++;
}

uint64_t vm_handle_create(struct vm *vm, size_t npages) {
    CUmemAllocationProp properties = vm_properties(vm->device);
    CUmemGenericAllocationHandle handle = 0;
    struct handles *handles = &vm->cache.sizes[extent_size_index(npages)];
    lock_take(&vm->lock);
    bool room = grow(handles);
    handles->total += room;
    vm->cache.physical_pages += room ? npages : 0;
    move_begins(vm);
    lock_give(&vm->lock);
    bool created = room && vm_granted(gate_create(&handle, npages * PAGE_BYTES, &properties, 0));
    vm_called(vm);
    lock_take(&vm->lock);
    handles->total -= room && !created;
    vm->cache.physical_pages -= room && !created ? npages : 0;
    vm->figures.creates += created ? npages : 0;
    vm->cache.moving--;
    vm_changed(vm);
    lock_give(&vm->lock);
    return created ? handle : 0;
}

/* --- going back to the driver --- */

/* The size of which one is released: the largest that is not more than what is wanted, else the
 * smallest there is. */
static size_t to_release(const struct vm *vm, size_t want, size_t larger) {
    size_t best = EXTENT_SIZES;
    for (size_t size = EXTENT_SIZES; size-- > 0;) {
        if (!vm->cache.sizes[size].count || extent_npages(size) <= larger)
            continue;
        best = size;
        if (extent_npages(size) <= want)
            break;
    }
    return best;
}

/* Until the driver has it back it is neither cached nor free: others know that it is on its way. */
static size_t release_one(struct vm *vm, size_t want, size_t larger) {
    lock_take(&vm->lock);
    size_t size = to_release(vm, want, larger);
    size_t npages = size < EXTENT_SIZES ? extent_npages(size) : 0;
    uint64_t handle = npages ? take(vm, size) : 0;
    vm->in_flight += npages;
    if (npages)
        move_begins(vm);
    lock_give(&vm->lock);
    if (!npages)
        return 0;
    bool released = REAL(cuMemRelease)(handle) == CUDA_SUCCESS;
    vm_called(vm);
    lock_take(&vm->lock);
    vm->in_flight -= npages;
    vm->cache.moving--;
    if (released) {
        vm->cache.sizes[size].total--;
        vm->cache.physical_pages -= npages;
        vm->landed++;
        vm->figures.releases += npages;
    } else {
        vm_cache_put(vm, handle, npages);
    }
    vm_changed(vm);
    lock_give(&vm->lock);
    bell_ring(&vm->arrived);
    return released ? npages : 0;
}

size_t vm_cache_trim(struct vm *vm, size_t want, size_t larger) {
    size_t released = 0, npages = 1;
    while (released < want && npages) {
        npages = release_one(vm, want - released, larger);
        released += npages;
    }
    return released;
}

size_t vm_cache_decay(struct vm *vm, size_t want) {
    size_t released = 0, npages = 1;
    while (released < want && npages && !atomic_load(&vm->cache.readers)) {
        npages = release_one(vm, want - released, 0);
        released += npages;
    }
    return released;
}
