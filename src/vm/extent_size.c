/* extent_size.c: see extent_size.h. It must not map anything, and what it takes from where memory is idle
 * must be no more than the block lacks. */
#include "vm/extent_size.h"

/* A piece that is made is at most this part of the device, and at most this one of what the driver
 * has left then, or of what the block takes if that is more. One that is there already is at most
 * this part of all that is not live. Where more than this part of the device is not live memory is
 * plentiful: pieces may lie ahead. Where it is just enough, each place at which blocks of long and
 * of short life meet holds some part of a piece in vain. */
enum { DEVICE_PART = 512, FREE_PART = 32, SLACK_PART = 16, PLENTY_PART = 16 };

/* What a piece may be of what lies around it. Some of it may stay in use when the rest is wanted
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

/* Frugal: memory comes and goes with nearly each block, and each piece costs a call to get it and
 * one to give it back. In ranges a piece may be as much as the block lacks, up to this part of the
 * device: when a later block needs some of it only, the piece goes first, if the GPU has finished
 * with it (pick_partly_used in commit.c). */
enum { FRUGAL_PART = 128 };

/* In segments of their own blocks of all sizes follow each other at the same addresses, and a small
 * one holds the large piece in which it comes to lie. So pieces are smaller there and none lies
 * ahead; all are single pages once this part of the device or less would be left by the driver. */
enum { SEGMENT_PART = 4, SEGMENT_SPAN = 16 };

/* What the driver has left where as much of the device is in use as is wanted. */
static uint64_t above_threshold(const struct pages *pages, const struct room *room) {
    return (uint64_t)((double)room->total_bytes * (100 - pages->threshold_percent) / 100);
}

/* What may be asked of the driver while something is idle. */
static uint64_t below_threshold(const struct pages *pages, const struct room *room) {
    return minus_u64(room->free_bytes, above_threshold(pages, room));
}

/* Memory that blocks will miss is taken from where it is idle before more of the device is in use
 * than is wanted, and before the driver has to refuse it; in any case from ranges that have ended,
 * for nobody comes back to them. */
static void purge_ahead(struct pages *pages, size_t missing, const struct room *room) {
    lock_take(&pages->lock);
    size_t want = minus_u64(missing, pages->kept_count);
    lock_give(&pages->lock);
    want = minus_u64(want, pages_purge_ended_ranges(pages, want));
    want = minus_u64(want, below_threshold(pages, room) / PAGE_BYTES);
    if (want)
        pages_purge_settled(pages, want);
}

/* What the driver has left once the block has what it lacks, if all of that is made. */
static uint64_t left_after(const struct room *room, const struct block *block) {
    return minus_u64(room->free_bytes, block->missing * PAGE_BYTES);
}

static size_t at_most(const struct pages *pages, uint64_t bytes) {
    return max_u64(min_u64(pages->plan.largest_span, bytes / PAGE_BYTES), 1);
}

static bool is_huge(const struct room *room, const struct block *block) {
    return block->missing * PAGE_BYTES > room->total_bytes / HUGE_BLOCK_PART;
}

static size_t largest_new(const struct pages *pages, const struct room *room,
                          const struct block *block) {
    uint64_t wanted = block->missing * PAGE_BYTES, left = left_after(room, block);
    uint64_t most = room->total_bytes / DEVICE_PART;
    if (block->segment->range && !pages->frugal) {
        if (is_huge(room, block))
            return at_most(pages, wanted / LARGE_PART);
        if (wanted > room->total_bytes / LARGE_BLOCK_PART)
            most = max_u64(most, wanted / LARGE_PART);
        if (left > room->total_bytes / 2)
            most = max_u64(most, room->total_bytes / EARLY_PART);
    }
    return at_most(pages, min_u64(most, max_u64(left, wanted) / FREE_PART));
}

/* So little that no piece of more than two pages would be in order. */
static bool is_little(size_t missing) {
    return missing < page_spans[2] * LARGE_PART;
}

static void limit_in_segment(struct allowed *allowed, size_t missing, uint64_t left,
                             uint64_t total_bytes) {
    size_t most = is_little(missing) || left < total_bytes / SEGMENT_PART ? 1 : SEGMENT_SPAN;
    allowed->new = min_u64(allowed->new, most);
    allowed->kept = min_u64(allowed->kept, most);
}

/* Frugal: what is physical may be as much as live blocks have needed at most, the one on its way
 * included. Above that the GPU is waited for where this brings enough: it has large blocks to work
 * on for so long that the wait costs next to nothing. For little ones this part more may be taken.
 */
enum { LITTLE_PART = 64 };

static void limit_physical(struct pages *pages, struct block *block) {
    lock_take(&pages->lock);
    size_t elsewhere = pages->table.idle_pages + pages->kept_count + pages->moving;
    block->before = pages->handle_count;
    block->need = minus_u64(pages->handle_count, elsewhere) + block->missing;
    block->limit = max_u64(pages->most_needed, block->need);
    lock_give(&pages->lock);
    if (is_little(block->missing))
        block->limit += block->limit / LITTLE_PART;
}

struct allowed limits_single(const struct block *block) {
    return (struct allowed){.kept = 1, .new = 1, .part = 1, .end = block->end};
}

static void limit_frugally(const struct pages *pages, struct block *block, const struct room *room,
                           bool plenty) {
    struct allowed *allowed = &block->allowed;
    allowed->part = block->segment->range && plenty ? 1 : LARGE_PART;
    if (room->scarce)
        allowed->new = 1;
    else if (allowed->part == 1)
        allowed->new = at_most(pages, room->total_bytes / FRUGAL_PART);
    else
        allowed->new = is_little(block->missing) ? 1 : largest_new(pages, room, block);
    allowed->kept = allowed->new;
}

/* See in_order in commit.c. */
static size_t part_of_what_lies_around(const struct room *room, const struct block *block) {
    uint64_t left = left_after(room, block);
    if (!block->segment->range || left > room->total_bytes - room->total_bytes / UNUSED_PART)
        return LARGE_PART;
    return left < room->total_bytes / LEFT_PART ? LAST_RANGE_PART : RANGE_PART;
}

static void limit_freely(const struct pages *pages, struct block *block, const struct room *room,
                         uint64_t slack, bool plenty) {
    struct allowed *allowed = &block->allowed;
    allowed->part_beyond = part_of_what_lies_around(room, block);
    allowed->part = is_huge(room, block) ? LARGE_PART : allowed->part_beyond;
    allowed->new = room->scarce ? 1 : largest_new(pages, room, block);
    allowed->kept = at_most(pages, slack / SLACK_PART);
    allowed->whole = block->segment->range;
    if (block->segment->range && plenty && !block->pin)
        allowed->end = block->segment->page_count;
}

/* Where the driver has less than this left memory is short. */
static uint64_t short_bytes(const struct pages *pages, const struct room *room) {
    return max_u64(above_threshold(pages, room), room->total_bytes / PLENTY_PART);
}

/* Nobody may miss what is made for a block that perhaps never comes. */
static size_t may_spare(const struct pages *pages, const struct room *room, uint64_t left) {
    return room->scarce ? 0 : minus_u64(left, short_bytes(pages, room)) / PAGE_BYTES;
}

size_t limits_spare(const struct block *block) {
    return block->fresh <= block->may_spare ? block->fresh : 0;
}

void limits_set(struct pages *pages, struct block *block) {
    size_t missing = block->missing;
    struct room room = pages_room(pages);
    uint64_t left = left_after(&room, block);
    uint64_t slack = minus_u64(room.free_bytes + room.idle_bytes, missing * PAGE_BYTES);
    bool plenty = slack > room.total_bytes / PLENTY_PART;
    block->may_spare = may_spare(pages, &room, left);
    limit_physical(pages, block);
    purge_ahead(pages, missing, &room);
    if (pages->frugal)
        limit_frugally(pages, block, &room, plenty);
    else
        limit_freely(pages, block, &room, slack, plenty);
    if (!block->segment->range)
        limit_in_segment(&block->allowed, missing, left, room.total_bytes);
}

/* A kept piece that is in order costs no call: only what is made is smaller from now on. */
void limits_fall_back(const struct pages *pages, struct block *block, size_t refused) {
    if (pages->frugal)
        block->allowed = limits_single(block);
    else
        block->allowed.new = refused / 2;
    block->allowed.end = block->end;
}

/* What is kept serves the block, or does not fit and goes first. */
bool limits_exceeded(struct pages *pages, const struct block *block, size_t bound) {
    lock_take(&pages->lock);
    size_t kept = min_u64(pages->kept_count, block->missing);
    size_t piece = min_u64(block->allowed.new, block->missing);
    bool more = pages->handle_count - kept + piece > bound;
    bool any_idle = pages->table.idle_pages > 0;
    lock_give(&pages->lock);
    return more && any_idle;
}

void limits_note(struct pages *pages, const struct block *block) {
    lock_take(&pages->lock);
    pages->most_needed = max_u64(pages->most_needed, block->need);
    lock_give(&pages->lock);
}

bool limits_short(struct pages *pages) {
    struct room room = pages_room(pages);
    return room.free_bytes < short_bytes(pages, &room);
}
