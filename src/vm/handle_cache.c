/* handle_cache.c: physical memory without a place: handles that wait for the next block, by size,
 * and what the driver has left besides. Keeping one must never fail, so there is always room for
 * all handles there are. */
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

/* Until it ends nobody knows what the driver counts. The lock is held. */
static void move_begins(struct vm *vm) {
    vm->cache.moving++;
    vm->cache.moves++;
}

static uint64_t moves(const struct vm *vm) {
    return vm->cache.moving ? 0 : vm->cache.moves + 1;
}

uint64_t vm_moves(struct vm *vm) {
    lock_take(&vm->lock);
    uint64_t now = moves(vm);
    lock_give(&vm->lock);
    return now;
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
    bool created =
        room && vm_granted(REAL(cuMemCreate)(&handle, npages * PAGE_BYTES, &properties, 0));
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
    if (MUTANT(handle_forgotten, released, true)) {
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
    while (released < want && npages &&
           MUTANT(decay_beside_readers, !atomic_load(&vm->cache.readers), true)) {
        npages = release_one(vm, want - released, 0);
        released += npages;
    }
    return released;
}

/* --- what the driver has left --- */

static struct room room_now(const struct vm *vm) {
    const struct reading *reading = &vm->cache.reading;
    uint64_t free_bytes = reading->card.free_bytes + reading->physical_pages * PAGE_BYTES;
    return (struct room){
        .free_bytes = minus_u64(free_bytes, vm->cache.physical_pages * PAGE_BYTES),
        .total_bytes = reading->card.total_bytes,
    };
}

static size_t physical_pages(struct vm *vm) {
    lock_take(&vm->lock);
    size_t pages = vm->cache.physical_pages;
    lock_give(&vm->lock);
    return pages;
}

/* Beside pages that come or go it may be off by these: then it is made again, once, and rather less
 * is free than more. */
static bool make_reading(struct vm *vm, struct reading *reading, unsigned readings) {
    bool fits = false;
    for (unsigned i = 0; i < readings && !fits; i++) {
        uint64_t before = vm_moves(vm);
        reading->physical_pages = physical_pages(vm);
        CUresult result = meminfo_read(&reading->card);
        vm_note_fault(result);
        if (result != CUDA_SUCCESS)
            return false;
        reading->physical_pages = min_u64(reading->physical_pages, physical_pages(vm));
        fits = MUTANT(reading_beside_moves, before && before == vm_moves(vm), true);
    }
    return true;
}

void vm_reading_begins(struct vm *vm) {
    atomic_fetch_add(&vm->cache.readers, 1);
}

void vm_reading_ends(struct vm *vm) {
    atomic_fetch_sub(&vm->cache.readers, 1);
}

static struct room read_room(struct vm *vm, enum meminfo_need need, unsigned readings) {
    struct reading reading;
    lock_take(&vm->lock);
    struct meminfo_age age = vm->cache.reading.card.age;
    struct room room = room_now(vm);
    lock_give(&vm->lock);
    if (meminfo_will_do(age, need))
        return room;
    vm_reading_begins(vm);
    bool made = make_reading(vm, &reading, readings);
    vm_reading_ends(vm);
    if (!made)
        return room; /* the old one stays */
    lock_take(&vm->lock);
    vm->cache.reading = reading;
    room = room_now(vm);
    lock_give(&vm->lock);
    return room;
}

struct room vm_room(struct vm *vm, enum meminfo_need need) {
    return read_room(vm, need, 2);
}

uint64_t room_below_threshold(const struct vm *vm, const struct room *room) {
    if (!room->total_bytes)
        return UINT64_MAX; /* not known */
    double above =
        (double)room->total_bytes * MUTANT(no_threshold, 100 - vm->threshold_percent, 0) / 100;
    return minus_u64(room->free_bytes, (uint64_t)above);
}

bool vm_is_below_threshold(const struct vm *vm) {
    struct room room = room_now(vm);
    return room_below_threshold(vm, &room) > 0;
}

/* Each address that PyTorch has reserved is memory without us; but it never hands those of refused
 * blocks out again. */
static uint64_t free_as_reserved(const struct vm *vm, uint64_t free_bytes) {
    uint64_t failed_bytes = MUTANT(failed_forgotten, vm->figures.failed_bytes, 0);
    return minus_u64(free_bytes + vm->cache.physical_pages * PAGE_BYTES + failed_bytes,
                     vm->table.reserved_pages * PAGE_BYTES);
}

static uint64_t free_as_read(struct vm *vm) {
    lock_take(&vm->lock);
    struct room room = room_now(vm); /* of the pages that are counted here */
    uint64_t bytes = free_as_reserved(vm, room.free_bytes);
    lock_give(&vm->lock);
    return room.total_bytes ? bytes : MUTANT(unknown_as_none, UINT64_MAX, 0);
}

uint64_t vm_free_as_reserved(struct vm *vm, enum meminfo_need need) {
    vm_room(vm, need);
    return free_as_read(vm);
}

uint64_t vm_free_as_seen(struct vm *vm, uint64_t free_bytes) {
    lock_take(&vm->lock);
    uint64_t bytes = free_as_reserved(vm, free_bytes);
    lock_give(&vm->lock);
    return bytes;
}

uint64_t vm_free_as_told(struct vm *vm, uint64_t free_bytes, uint64_t before) {
    lock_take(&vm->lock);
    bool fits = before == MUTANT(told_beside_moves, moves(vm), before);
    uint64_t bytes = free_as_reserved(vm, free_bytes);
    lock_give(&vm->lock);
    if (fits && before)
        return bytes;
    read_room(vm, MEMINFO_ANEW, 1); /* the program has made one */
    return free_as_read(vm);
}
