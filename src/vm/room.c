/* room.c: what the driver has left, by readings of the card and the pages that came and went since;
 * and what of it PyTorch would see without the engine. It must not read the card more often than
 * card/reading.h allows. */
#include "card/threshold.h"
#include "vm/vm_internal.h"

static struct room room_now(const struct vm *vm) {
    const struct reading *reading = &vm->cache.reading;
    uint64_t physical_bytes = vm->cache.physical_pages * PAGE_BYTES;
    int64_t gone_bytes = (int64_t)(reading->physical_bytes - physical_bytes);
    int64_t spare_bytes = reading->card.spare_bytes + gone_bytes;
    return (struct room){
        .spare_bytes = spare_bytes,
        .free_bytes = at_least_0(spare_bytes),
        .total_bytes = reading->card.total_bytes,
    };
}

/* Both of one moment. */
static bool count_physical(void *of, struct card_own *own) {
    struct vm *vm = of;
    LOCKED(&vm->lock);
    own->bytes = vm->cache.physical_pages * PAGE_BYTES;
    own->moves = vm_moves(vm);
    return true;
}

uint64_t vm_moves(const struct vm *vm) {
    return generation_now(&vm->cache.moves, 0);
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
    CUresult result =
        meminfo_read_beside(&reading.card, readings, count_physical, vm, &reading.physical_bytes);
    vm_reading_ends(vm);
    vm_note_fault(result);
    if (result != CUDA_SUCCESS)
        return room; /* the old one stays */
    LOCKED(&vm->lock);
    vm->cache.reading = reading;
    return room_now(vm);
}

struct room vm_room(struct vm *vm, enum meminfo_need need) {
    return read_room(vm, need, 2);
}

uint64_t room_below_threshold(const struct vm *vm, const struct room *room) {
    if (!room->total_bytes)
        return UINT64_MAX; /* not known */
    uint64_t used_bytes = minus_u64(room->total_bytes, room->free_bytes);
    return minus_u64(card_at_threshold(vm->threshold_percent, room->total_bytes), used_bytes);
}

/* The rest, above it, is for memory in pages, which fits where whole ranges do not. */
enum { ROOMY_PERCENT = 90 };

bool vm_is_roomy(struct vm *vm, size_t pages) {
    struct room room = room_now(vm);
    size_t at_hand = vm->cache.cached_pages + vm->table.idle_pages[IDLE_RETURNED];
    uint64_t free_bytes = minus_u64(room.free_bytes, minus_u64(pages, at_hand) * PAGE_BYTES);
    uint64_t most = card_at_threshold(ROOMY_PERCENT, room.total_bytes);
    vm->filled = vm->filled || vm->lowvram || room.total_bytes - room.free_bytes >= most;
    return !vm->lowvram && room.total_bytes - free_bytes < most;
}

/* Each address that PyTorch has reserved is memory without us; but it never hands those of refused
 * blocks out again. */
static uint64_t free_as_reserved(const struct vm *vm, int64_t spare_bytes) {
    uint64_t failed_bytes = vm->figures.failed_bytes;
    int64_t ours = (int64_t)(vm->cache.physical_pages * PAGE_BYTES + failed_bytes);
    return at_least_0(spare_bytes + ours - (int64_t)(vm->table.reserved_pages * PAGE_BYTES));
}

static uint64_t free_as_read(struct vm *vm) {
    LOCKED(&vm->lock);
    struct room room = room_now(vm); /* of the pages that are counted here */
    uint64_t bytes = free_as_reserved(vm, room.spare_bytes);
    return room.total_bytes ? bytes : UINT64_MAX;
}

uint64_t vm_free_as_reserved(struct vm *vm, enum meminfo_need need) {
    vm_room(vm, need);
    return free_as_read(vm);
}

uint64_t vm_free_as_seen(struct vm *vm, int64_t spare_bytes) {
    LOCKED(&vm->lock);
    return free_as_reserved(vm, spare_bytes);
}

uint64_t vm_free_as_told(struct vm *vm, int64_t spare_bytes, uint64_t before) {
    uint64_t bytes = vm_free_as_seen(vm, spare_bytes);
    if (generation_same(before, vm_moves(vm)))
        return bytes;
    read_room(vm, MEMINFO_ANEW, 1); /* the program has made one */
    return free_as_read(vm);
}
