/* commit.c: a block gets the physical memory that it lacks: from the handle cache, from idle
 * extents, from the driver. It must be transactional: a block that cannot have all its pages leaves
 * everything as it was; and it must never touch a page that is BUSY in another thread.
 *
 * An extent of several pages belongs to one block: it lies in pages that no other block can reach
 * into, nor have behind it. All other pages are single. So whatever goes first, a block that stays
 * keeps its own pages and nothing else. An idle extent that a block would use in part only is
 * replaced by pages; where the GPU is not past it, it stays as it is, for the block does not wait
 * for that.
 *
 * While the card is roomy a block may have the inner pages of what PyTorch has just mapped for it
 * in one piece of up to 240 MiB; never the rest of PyTorch's step: small blocks that share a piece
 * and stay kept all of it (tests/lab/FIGURES.md). As long as the card has been roomy ever since an
 * idle extent of 20 MiB is not replaced, as it is not with PyTorch alone. */
#include "vm/vm_internal.h"

#include "base/debug.h"

/* A block on its way to its user. */
struct block {
    struct page_segment *segment;
    size_t first, live_end; /* the pages that it reaches into */
    size_t end;             /* one more, if it has a guard: see OVERREAD_BYTES */
    size_t guard;
    uint64_t address, bytes;
    size_t inner_first, inner_end; /* of them those that are its alone: no block can come there */
    size_t next;                   /* the page that is looked at next */
    size_t missing;                /* pages that it lacks still */
    size_t largest;                /* pages of the largest extent that it may get */
};

/* Empty pages on their way to physical memory. */
struct extent {
    struct page *page; /* NULL: all are there */
    size_t npages;
    uint64_t handle; /* cached memory for them; 0: to be had */
};

/* All that a block that goes needs. */
static struct block pages_of(struct page_segment *segment, uint64_t address, uint64_t bytes) {
    struct block block = {.segment = segment, .address = address, .bytes = bytes};
    block.first = block.next = page_table_first(segment, address);
    block.live_end = block.first + page_table_npages(segment, address, bytes);
    block.guard = page_table_guard(segment, address, bytes);
    return block;
}

static struct block block_at(struct page_segment *segment, uint64_t address, uint64_t bytes) {
    struct block block = pages_of(segment, address, bytes);
    bool guarded = block.guard && segment->pages[block.guard].attached;
    block.end = block.live_end + guarded;
    /* A block that ends where this one begins has its guard before them. */
    uint64_t begin = address - segment->address;
    uint64_t reach = OVERREAD_BYTES;
    block.inner_first = begin ? (begin - 1 + reach) / PAGE_BYTES + 1 : 0;
    block.inner_end = (begin + bytes) / PAGE_BYTES;
    return block;
}

static bool is_missing(const struct page *page) {
    return page->state == PAGE_EMPTY && page->attached;
}

/* --- one extent after another --- */

/* The pages of the extent that the next missing page gets: as many as are missing from there on of
 * those that are the block's alone. */
static size_t extent_for(const struct block *block) {
    const struct page *pages = block->segment->pages;
    size_t run = 0, end = block->inner_end;
    while (block->next >= block->inner_first && run < block->largest && block->next + run < end &&
           is_missing(&pages[block->next + run]))
        run++;
    return max_u64(extent_within(run), 1);
}

/* Claims the next missing pages of the block; waits while one is BUSY elsewhere. */
static struct extent claim_extent(struct vm *vm, struct block *block) {
    LOCKED(&vm->lock);
    while (block->next < block->end) {
        struct page *page = &block->segment->pages[block->next];
        if (page->state == PAGE_BUSY && page->attached) {
            bell_await(&vm->arrived, &vm->lock);
        } else if (is_missing(page)) {
            struct extent extent = {page, extent_for(block), 0};
            extent.handle = vm_cache_take(vm, extent.npages / 2, extent.npages, &extent.npages);
            page_table_claim(page, extent.npages);
            return extent;
        } else {
            const struct page *lead = page_lead(page);
            block->next = (size_t)(lead - block->segment->pages) + page_npages(lead);
        }
    }
    return (struct extent){0};
}

/* Gives the claimed pages memory. False: there is none, and they are empty again. */
static bool fill(struct vm *vm, struct extent *extent, struct block *block) {
    block->missing = max_u64(block->missing, extent->npages); /* some were BUSY when counted */
    if (!extent->handle)
        extent->handle =
            extent->npages > 1 ? vm_take_new(vm, extent->npages) : vm_find_page(vm, block->missing);
    bool filled = vm_map_claimed(vm, extent->page, extent->npages, extent->handle);
    block->missing -= filled ? extent->npages : 0;
    if (!filled)
        vm_spill_return(vm);
    return filled;
}

/* --- before the first --- */

static size_t count_missing(struct vm *vm, const struct block *block) {
    size_t missing = 0;
    LOCKED(&vm->lock);
    const struct page *page = block->segment->pages + block->next;
    const struct page *end = block->segment->pages + block->end;
    for (; page < end; page = page_lead(page) + page_npages(page_lead(page)))
        missing += is_missing(page);
    return missing;
}

/* More would be physical than PyTorch has reserved, though it has returned some. */
static bool would_exceed(struct vm *vm, size_t wanted) {
    LOCKED(&vm->lock);
    return wanted && vm->table.idle_pages[IDLE_RETURNED] > 0 &&
           vm->cache.physical_pages + wanted > vm->table.attached_pages;
}

/* Before new memory is asked for: what PyTorch has returned is used; above the threshold, what is
 * idle. The GPU is asked whether it has finished. It is waited for only for what PyTorch alone has
 * waited for already, in the cudaFree by which it returned memory: what came later may wait for
 * this very thread. */
static void use_idle(struct vm *vm, struct block *block, const struct room *room) {
    size_t wanted = minus_u64(block->missing, vm_read(vm, &vm->cache.cached_pages));
    wanted = minus_u64(wanted, vm_decommit_fenced(vm, IDLE_RETURNED, wanted));
    size_t above = minus_u64(wanted, room_below_threshold(vm, room) / PAGE_BYTES);
    wanted = minus_u64(wanted, vm_decommit_fenced(vm, IDLE_KEPT, above));
    if (would_exceed(vm, wanted) && vm_fence_wait_returned(vm))
        vm_decommit(vm, IDLE_RETURNED, wanted);
}

/* How the block gets what it lacks. */
static void plan(struct vm *vm, struct block *block) {
    struct room room = vm_room(vm, MEMINFO_KNOWN);
    const struct page *last = &block->segment->pages[block->live_end - 1];
    block->missing = count_missing(vm, block);
    lock_take(&vm->lock);
    bool roomy = last->fresh && vm_is_roomy(vm, block->missing);
    lock_give(&vm->lock);
    block->largest = extent_largest(room.total_bytes, roomy);
    if (block->missing)
        use_idle(vm, block, &room);
}

/* Where a large extent cannot be had, smaller ones. */
static bool map_extents(struct vm *vm, struct block *block) {
    struct extent extent;
    while ((extent = claim_extent(vm, block)).page) {
        if (fill(vm, &extent, block))
            continue;
        if (!vm_lacks_memory() || extent.npages == 1)
            return false;
        block->largest = max_u64(extent.npages / 2, 1);
    }
    return true;
}

static void note_droppable(const struct block *block) {
    if (block->guard)
        page_table_note_droppable(block->segment, block->guard, block->address, block->bytes);
}

/* The block does without its guard, as without us, rather than be refused. */
static bool drop_guard(struct vm *vm, struct block *block) {
    LOCKED(&vm->lock);
    note_droppable(block);
    bool droppable = block->end > block->live_end && block->segment->pages[block->guard].droppable;
    if (droppable) {
        page_table_mark_guard(&vm->table, block->segment, block->guard, false);
        block->end = block->live_end;
        block->guard = 0;
    }
    return droppable;
}

/* Maps what is missing; where that is refused once more it comes in single pages. What was mapped
 * and opened before memory ran out stays, as idle pages: it is the caller who takes the block back.
 */
static bool map_missing(struct vm *vm, struct block *block) {
    unsigned attempts = 0;
    vm_refusal_forget();
    plan(vm, block);
    while (!map_extents(vm, block) ||
           !vm_set_access(vm, block->segment, block->first, block->end - block->first)) {
        bool again = vm_ask_again(vm, &attempts) || (vm_lacks_memory() && drop_guard(vm, block));
        if (!again || attempts > 1)
            vm_undo_closed(vm, block->segment, block->first, block->end - block->first);
        if (!again)
            return false;
        block->next = block->first;
        block->missing = count_missing(vm, block);
        block->largest = attempts > 1 ? 1 : block->largest;
    }
    return true;
}

/* --- idle extents of which the block would use a part --- */

/* The extent of the page is idle, and others than the block could come to a part of it. */
static bool is_partly_used(const struct block *block, const struct page *lead) {
    size_t first = (size_t)(lead - block->segment->pages), npages = page_npages(lead);
    bool its_alone = first >= block->inner_first && first + npages <= block->inner_end;
    return npages > 1 && lead->idle != IDLE_NOT && !its_alone;
}

/* Only those at the block's first and last page, and at its guard, can be such. */
enum { ENDS = 3 };
static struct page *extent_at(const struct block *block, size_t end) {
    const size_t pages[ENDS] = {block->first, block->live_end - 1, block->end - 1};
    return page_lead(&block->segment->pages[pages[end]]);
}

/* Takes those that may go; whether there are more, with which the GPU is not known to have
 * finished. */
static bool take_partly_used(struct vm *vm, const struct block *block, struct page **list,
                             size_t *count) {
    bool more = false;
    LOCKED(&vm->lock);
    for (size_t i = 0; i < ENDS; i++) {
        struct page *lead = extent_at(block, i);
        if (!is_partly_used(block, lead))
            continue;
        if (page_table_try_victim(&vm->table, lead))
            list[(*count)++] = lead;
        else
            more = true;
    }
    return more;
}

/* They lose their memory, and the block gets pages. */
static void replace_partly_used(struct vm *vm, struct block *block) {
    struct page *list[2 * ENDS];
    size_t count = 0;
    if (take_partly_used(vm, block, list, &count)) {
        vm_fence_poll(vm, false);
        take_partly_used(vm, block, list, &count);
    }
    vm_unmap(vm, list, count);
}

/* --- a block comes, and goes --- */

/* The lock is held. */
static void mark_idle(struct vm *vm, const struct block *block) {
    page_table_mark_idle(&vm->table, block->segment, block->first, block->live_end - block->first);
    if (block->guard)
        page_table_mark_guard(&vm->table, block->segment, block->guard, false);
}

static void end_use(struct vm *vm, const struct block *block, bool done, bool pin) {
    LOCKED(&vm->lock);
    if (!done)
        mark_idle(vm, block);
    else
        note_droppable(block);
    if (done && pin)
        page_table_pin(block->segment, block->first, block->end - block->first);
}

/* The block lacks nothing: so it is for nearly all. The lock is held. */
static bool is_there(const struct vm *vm, const struct block *block) {
    for (size_t i = block->first; i < block->end; i++) {
        const struct page *page = &block->segment->pages[i];
        if (page->attached && (page->state != PAGE_MAPPED || page->open_to < vm->peers.count))
            return false;
    }
    return true;
}

static bool mark_live(struct vm *vm, const struct block *block) {
    page_table_mark_live(&vm->table, block->segment, block->first, block->live_end - block->first);
    if (block->guard)
        page_table_mark_guard(&vm->table, block->segment, block->guard, true);
    return is_there(vm, block);
}

/* The lock is held. */
static bool uses_parts(struct vm *vm, const struct block *block) {
    bool any = false;
    for (size_t i = 0; i < ENDS; i++) {
        const struct page *lead = extent_at(block, i);
        any = any || (is_partly_used(block, lead) &&
                      (page_npages(lead) > LARGEST_EXTENT || !vm_is_roomy(vm, 0) || vm->filled));
    }
    return any;
}

/* For the few blocks that lack something. */
static bool complete(struct vm *vm, struct block *block, bool partly, bool there, bool pin) {
    RELAXED_CAPTURES;
    if (partly) {
        replace_partly_used(vm, block);
        lock_take(&vm->lock);
        there = mark_live(vm, block);
        lock_give(&vm->lock);
    }
    bool done = there || map_missing(vm, block);
    if (!done || pin || block->guard)
        end_use(vm, block, done, pin);
    return done;
}

bool vm_commit(struct vm *vm, uint64_t address, uint64_t bytes, bool pin) {
    struct block block = {0};
    vm_spill_replace(vm, address, bytes);
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool partly = false, there = true;
    if (segment) {
        block = block_at(segment, address, bytes);
        partly = uses_parts(vm, &block);
        there = partly || mark_live(vm, &block);
        if (there && !partly)
            note_droppable(&block);
    }
    lock_give(&vm->lock);
    if (!segment || LIKELY(!partly && there && !pin))
        return true;
    return complete(vm, &block, partly, there, pin);
}

void vm_mapped(struct vm *vm, uint64_t address, uint64_t bytes) {
    vm_room(vm, MEMINFO_KNOWN);
    LOCKED(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool roomy = segment && vm_is_roomy(vm, bytes / PAGE_BYTES);
    struct page *page = roomy ? &segment->pages[page_table_first(segment, address)] : NULL;
    for (size_t i = 0; roomy && i < bytes / PAGE_BYTES; i++)
        if (page[i].state == PAGE_EMPTY)
            page[i].fresh = true;
}

void vm_mark_idle(struct vm *vm, uint64_t address, uint64_t bytes) {
    LOCKED(&vm->lock);
    vm_set_clock(vm);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    if (segment && !segment->ended) {
        struct block block = pages_of(segment, address, bytes);
        mark_idle(vm, &block);
    }
    CHECK_NOW_AND_THEN(page_table_is_valid(&vm->table));
}

void vm_pin_live(struct vm *vm) {
    LOCKED(&vm->lock);
    page_table_pin_live(&vm->table);
}

/* PyTorch has waited for the GPU by then (torch.cuda.graph does), so that most of the time it needs
 * only be asked. Waits a moment where more is idle than is left. */
void vm_capture_prepare(struct vm *vm) {
    vm_fence_poll_in_turn(vm);
    struct room room = vm_room(vm, MEMINFO_KNOWN);
    if (vm_newly_idle(vm) && vm_figures(vm).idle_bytes > room.free_bytes)
        vm_fence_wait_briefly(vm);
}
