/* extent_size.c: see extent_size.h. It must not map anything, and what it takes from where memory
 * is idle must be no more than the block lacks. */
#include "vm/extent_size.h"

/* An extent that is made is at most this part of the device, and at most this one of what the
 * driver has left then, or of what the block takes if that is more. One that is there already is at
 * most this part of all that is not live. Where more than this part of the device is not live
 * memory is plentiful: extents may lie ahead. Where it is just enough, each place at which blocks
 * of long and of short life meet holds some part of an extent in vain. */
enum { DEVICE_PART = 512, FREE_PART = 32, SLACK_PART = 16, PLENTY_PART = 16 };

/* What an extent may be of what lies around it. Some of it may stay in use when the rest is wanted
 * elsewhere, or may not be wanted before long. */
enum { LARGE_PART = 8 };

/* In ranges, expandable segments and what a stream-ordered pool deals out, which hold many blocks,
 * it is at most this part of what lies around it, once more than this part of the device is in use,
 * and at most this part once less than this part of the device is left. It may be this part of the
 * device while half of that is left, and LARGE_PART of a block that takes more than this part of
 * the device: no more than FREE_PART allows, unless the block takes even this part of it. With
 * these sd15, sdxl, sdxl_offload and flux fit the same simulated devices as without, for less than
 * half of the calls; with 8 for UNUSED_PART or 32 for LARGE_BLOCK_PART sdxl needs 0.3 % more, with
 * 24 for HUGE_BLOCK_PART too, with 64 for EARLY_PART sd15 0.6 %; without LAST_RANGE_PART sdxl needs
 * 0.3 % more in every second run of a busy machine. */
enum { RANGE_PART = 32, UNUSED_PART = 16, LAST_RANGE_PART = 64, LEFT_PART = 4, EARLY_PART = 128 };
enum { LARGE_BLOCK_PART = 24, HUGE_BLOCK_PART = 10 };

/* Lowvram: memory comes and goes with nearly each block, and each extent costs a call to get it and
 * one to give it back. In ranges an extent may be as much as the block lacks, up to this part of
 * the device: when a later block needs some of it only, the extent goes first, if the GPU has
 * finished with it (victims_partly_used in commit.c). */
enum { LOWVRAM_PART = 128 };

/* In segments of their own blocks of all sizes follow each other at the same addresses, and a small
 * one holds the large extent in which it comes to lie. So extents are smaller there and none lies
 * ahead; all are single pages once this part of the device or less would be left by the driver. */
enum { SEGMENT_PART = 4, SEGMENT_EXTENT = 16 };

/* What the driver has left where as much of the device is in use as is wanted. */
static uint64_t above_threshold(const struct vm *vm, const struct room *room) {
    return (uint64_t)((double)room->total_bytes * (100 - vm->threshold_percent) / 100);
}

/* What may be asked of the driver while something is idle. */
static uint64_t below_threshold(const struct vm *vm, const struct room *room) {
    return minus_u64(room->free_bytes, above_threshold(vm, room));
}

/* Memory that blocks will miss is taken from where it is idle before more of the device is in use
 * than is wanted, and before the driver has to refuse it; in any case from ranges that have ended,
 * for nobody comes back to them. */
static void decommit_ahead(struct vm *vm, size_t missing, const struct room *room) {
    lock_take(&vm->lock);
    size_t want = minus_u64(missing, vm->cached_count);
    lock_give(&vm->lock);
    want = minus_u64(want, vm_decommit_ended_ranges(vm, want));
    want = minus_u64(want, below_threshold(vm, room) / PAGE_BYTES);
    if (want)
        vm_decommit_fenced(vm, want);
}

/* What the driver has left once the block has what it lacks, if all of that is made. */
static uint64_t left_after(const struct room *room, const struct block *block) {
    return minus_u64(room->free_bytes, block->missing * PAGE_BYTES);
}

static size_t at_most(const struct vm *vm, uint64_t bytes) {
    return max_u64(min_u64(vm->plan.largest_extent, bytes / PAGE_BYTES), 1);
}

static bool is_huge(const struct room *room, const struct block *block) {
    return block->missing * PAGE_BYTES > room->total_bytes / HUGE_BLOCK_PART;
}

static size_t largest_new(const struct vm *vm, const struct room *room, const struct block *block) {
    uint64_t wanted = block->missing * PAGE_BYTES, left = left_after(room, block);
    uint64_t most = room->total_bytes / DEVICE_PART;
    if (block->segment->range && !vm->lowvram) {
        if (is_huge(room, block))
            return at_most(vm, wanted / LARGE_PART);
        if (wanted > room->total_bytes / LARGE_BLOCK_PART)
            most = max_u64(most, wanted / LARGE_PART);
        if (left > room->total_bytes / 2)
            most = max_u64(most, room->total_bytes / EARLY_PART);
    }
    return at_most(vm, min_u64(most, max_u64(left, wanted) / FREE_PART));
}

/* So little that no extent of more than two pages would be in order. */
static bool is_little(size_t missing) {
    return missing < extent_npages[2] * LARGE_PART;
}

static void limit_in_segment(struct extent_limits *limits, size_t missing, uint64_t left,
                             uint64_t total_bytes) {
    size_t most = is_little(missing) || left < total_bytes / SEGMENT_PART ? 1 : SEGMENT_EXTENT;
    limits->new = min_u64(limits->new, most);
    limits->cached = min_u64(limits->cached, most);
}

/* Lowvram: what is physical may be as much as live blocks have needed at most, the one on its way
 * included. Above that the GPU is waited for where this brings enough: it has large blocks to work
 * on for so long that the wait costs next to nothing. For little ones this part more may be taken.
 */
enum { LITTLE_PART = 64 };

static void limit_physical(struct vm *vm, struct block *block) {
    lock_take(&vm->lock);
    size_t elsewhere = vm->table.idle_pages + vm->cached_count + vm->in_flight;
    block->before = vm->handle_count;
    block->need = minus_u64(vm->handle_count, elsewhere) + block->missing;
    block->limit = max_u64(vm->most_needed, block->need);
    lock_give(&vm->lock);
    if (is_little(block->missing))
        block->limit += block->limit / LITTLE_PART;
}

struct extent_limits extent_size_single(const struct block *block) {
    return (struct extent_limits){.cached = 1, .new = 1, .part = 1, .end = block->end};
}

static void limit_lowvram(const struct vm *vm, struct block *block, const struct room *room,
                          bool plenty) {
    struct extent_limits *limits = &block->limits;
    limits->part = block->segment->range && plenty ? 1 : LARGE_PART;
    if (room->under_pressure)
        limits->new = 1;
    else if (limits->part == 1)
        limits->new = at_most(vm, room->total_bytes / LOWVRAM_PART);
    else
        limits->new = is_little(block->missing) ? 1 : largest_new(vm, room, block);
    limits->cached = limits->new;
}

/* See in_order in commit.c. */
static size_t part_of_what_lies_around(const struct room *room, const struct block *block) {
    uint64_t left = left_after(room, block);
    if (!block->segment->range || left > room->total_bytes - room->total_bytes / UNUSED_PART)
        return LARGE_PART;
    return left < room->total_bytes / LEFT_PART ? LAST_RANGE_PART : RANGE_PART;
}

static void limit_freely(const struct vm *vm, struct block *block, const struct room *room,
                         uint64_t slack, bool plenty) {
    struct extent_limits *limits = &block->limits;
    limits->part_beyond = part_of_what_lies_around(room, block);
    limits->part = is_huge(room, block) ? LARGE_PART : limits->part_beyond;
    limits->new = room->under_pressure ? 1 : largest_new(vm, room, block);
    limits->cached = at_most(vm, slack / SLACK_PART);
    limits->whole = block->segment->range;
    if (block->segment->range && plenty && !block->pin)
        limits->end = block->segment->page_count;
}

/* Where the driver has less than this left memory is short. */
static uint64_t short_bytes(const struct vm *vm, const struct room *room) {
    return max_u64(above_threshold(vm, room), room->total_bytes / PLENTY_PART);
}

/* Nobody may miss what is made for a block that perhaps never comes. */
static size_t may_prefetch(const struct vm *vm, const struct room *room, uint64_t left) {
    return room->under_pressure ? 0 : minus_u64(left, short_bytes(vm, room)) / PAGE_BYTES;
}

size_t extent_size_prefetch(const struct block *block) {
    return block->fresh <= block->may_prefetch ? block->fresh : 0;
}

void extent_size_set(struct vm *vm, struct block *block) {
    size_t missing = block->missing;
    struct room room = vm_room(vm);
    uint64_t left = left_after(&room, block);
    uint64_t slack = minus_u64(room.free_bytes + room.idle_bytes, missing * PAGE_BYTES);
    bool plenty = slack > room.total_bytes / PLENTY_PART;
    block->may_prefetch = may_prefetch(vm, &room, left);
    limit_physical(vm, block);
    decommit_ahead(vm, missing, &room);
    if (vm->lowvram)
        limit_lowvram(vm, block, &room, plenty);
    else
        limit_freely(vm, block, &room, slack, plenty);
    if (!block->segment->range)
        limit_in_segment(&block->limits, missing, left, room.total_bytes);
}

/* A cached extent that is in order costs no call: only what is made is smaller from now on. */
void extent_size_fall_back(const struct vm *vm, struct block *block, size_t refused) {
    if (vm->lowvram)
        block->limits = extent_size_single(block);
    else
        block->limits.new = refused / 2;
    block->limits.end = block->end;
}

/* What is cached serves the block, or does not fit and goes first. */
bool extent_size_exceeded(struct vm *vm, const struct block *block, size_t bound) {
    lock_take(&vm->lock);
    size_t cached = min_u64(vm->cached_count, block->missing);
    size_t extent = min_u64(block->limits.new, block->missing);
    bool more = vm->handle_count - cached + extent > bound;
    bool any_idle = vm->table.idle_pages > 0;
    lock_give(&vm->lock);
    return more && any_idle;
}

void extent_size_note(struct vm *vm, const struct block *block) {
    lock_take(&vm->lock);
    vm->most_needed = max_u64(vm->most_needed, block->need);
    lock_give(&vm->lock);
}

bool extent_size_is_short(struct vm *vm) {
    struct room room = vm_room(vm);
    return room.free_bytes < short_bytes(vm, &room);
}
