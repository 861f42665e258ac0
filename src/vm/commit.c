/* commit.c: see vm.h. It must be transactional: a block whose pages cannot all be had leaves
 * everything as it was; and it must never touch a page that is WORKING in another thread. */
#include "vm/extent_size.h"

#include <sched.h>

static const char *device_name(unsigned device, char *name, size_t size) {
    real_cuDeviceGetName_t get = REAL(cuDeviceGetName);
    return get && get(name, (int)size, (CUdevice)device) == CUDA_SUCCESS ? name : NULL;
}

const char *pages_costs(struct pages *pages) {
    return pages->costs->source;
}

uint64_t pages_patience_ns(struct pages *pages) {
    return pages->plan.park_ns;
}

struct pages *pages_open(unsigned device, bool (*capturing)(void), double threshold_percent) {
    CUcontext context = NULL;
    char name[128];
    if (!pages_trial(device) || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
        return NULL;
    struct pages *pages = memory_map(sizeof *pages);
    if (!pages)
        return NULL;
    pages->device = device;
    pages->context = context;
    pages->capturing = capturing;
    pages->threshold_percent = threshold_percent;
    pages->frugal = threshold_percent <= 0;
    pages->costs = costs_of(device_name(device, name, sizeof name));
    pages->plan = costs_plan(pages->costs);
    pages->access[pages->access_count++] = pages_access(device);
    return pages;
}

/* Empty pages on their way to memory in one piece. */
struct piece {
    struct page *page; /* NULL: all there */
    size_t span;
    uint64_t handle; /* kept memory for it; 0: to be had */
};

static bool is_missing(const struct page *page) {
    return page->state == PAGE_EMPTY && page->granted;
}

/* At the first of some missing pages that follow each other: how many they are. */
static void measure_run(struct block *block) {
    if (block->next < block->run_end)
        return;
    block->run_end = block->next;
    while (block->run_end < block->end && is_missing(&block->segment->pages[block->run_end]))
        block->run_end++;
    block->run = block->run_end - block->next;
}

/* So many pages from block->next on, at most `most`, are empty and lie before `end`. */
static size_t empty_here(const struct block *block, size_t most, size_t end) {
    size_t count = 1;
    while (count < most && block->next + count < end &&
           block->segment->pages[block->next + count].state == PAGE_EMPTY)
        count++;
    return count;
}

/* The largest piece of at most so many pages that is in order for the missing ones. Where pieces
 * may lie beyond the block, what lies around is all that the range holds, and a little more at the
 * beginning, as PyTorch itself asks for more than a block needs. */
static size_t in_order(const struct block *block, size_t most) {
    size_t room = empty_here(block, most, block->allowed.end), best = 1, around = block->run;
    if (block->allowed.end > block->end)
        around = block->allowed.kept + block->segment->filled_count;
    for (size_t size = 0; size < PAGE_SIZES; size++) {
        size_t span = page_spans[size], end = block->next + span;
        size_t part = end > block->end ? block->allowed.part_beyond : block->allowed.part;
        if (span <= room && span * part <= max_u64(block->run, around))
            best = span;
    }
    return best;
}

/* Of kept memory the largest piece that the block fills, or that is in order; else one is to be
 * made. The lock is held. */
static struct piece choose(struct pages *pages, struct block *block) {
    struct piece piece = {.page = &block->segment->pages[block->next]};
    measure_run(block);
    size_t most = in_order(block, block->allowed.kept);
    if (block->allowed.whole)
        most = max_u64(most, empty_here(block, LARGEST_SPAN, block->run_end));
    piece.span = in_order(block, block->allowed.new);
    size_t made = piece.span;
    piece.handle = pages_take_kept(pages, most, &piece.span);
    if (!piece.handle) {
        piece.handle = pages_take_spare(pages, made);
        block->fresh = made;
    }
    page_table_claim(piece.page, piece.span);
    return piece;
}

/* Claims the next missing pages of the block; waits while one is WORKING elsewhere. */
static struct piece claim(struct pages *pages, struct block *block) {
    struct piece piece = {0};
    lock_take(&pages->lock);
    while (block->next < block->end && !piece.page) {
        struct page *page = &block->segment->pages[block->next];
        if (page->state == PAGE_WORKING && page->granted) {
            lock_give(&pages->lock);
            sched_yield();
            lock_take(&pages->lock);
            continue;
        }
        if (is_missing(page)) {
            piece = choose(pages, block);
        } else {
            const struct page *lead = page_lead(page);
            block->next = (size_t)(lead - block->segment->pages) + page_span(lead);
        }
    }
    lock_give(&pages->lock);
    return piece;
}

/* Whether memory has come back, or is on its way, since `then`. */
static bool more_may_come(struct pages *pages, uint64_t then) {
    lock_take(&pages->lock);
    const struct host_memory *host = &pages->host;
    bool moving =
        pages->moving + pages->opening + pages->making + host->returning_count + host->leaving > 0;
    bool more = moving || pages->moved != then;
    lock_give(&pages->lock);
    if (moving)
        sched_yield();
    return more;
}

static uint64_t moved(struct pages *pages) {
    lock_take(&pages->lock);
    uint64_t count = pages->moved;
    lock_give(&pages->lock);
    return count;
}

static uint64_t take_one(struct pages *pages) {
    size_t span;
    lock_take(&pages->lock);
    uint64_t handle = pages_take_kept(pages, 1, &span);
    handle = handle ? handle : pages_take_spare(pages, 1);
    lock_give(&pages->lock);
    return handle;
}

/* What is at hand without waiting: kept memory; a piece that is kept and too large for here goes
 * back to the driver and comes as new, in frugal mode all such before any is asked for. */
static uint64_t take_or_create(struct pages *pages, size_t still_missing) {
    uint64_t handle = take_one(pages);
    if (!handle && pages->frugal)
        pages_release(pages, still_missing, 1);
    if (!handle)
        handle = pages_create(pages, 1);
    while (!handle && pages_release(pages, 1, 1))
        handle = pages_create(pages, 1);
    return handle;
}

/* Whether another thread's pages have become idle since the GPU was last waited for. */
static bool newly_idle(struct pages *pages) {
    lock_take(&pages->lock);
    bool any = false;
    for (size_t size = 0; size < PAGE_SIZES; size++) {
        const struct page *newest = pages->table.newest[size];
        any = any || (newest && newest->idle_tick > pages->table.settled_tick);
    }
    lock_give(&pages->lock);
    return any;
}

/* 0: really full. Memory that another thread is just unmapping or giving back is waited for; what
 * others leave while the GPU is waited for is looked at a few times more. */
static uint64_t find_memory(struct pages *pages, size_t still_missing) {
    for (int patience = 16;;) {
        uint64_t then = moved(pages);
        uint64_t handle = take_or_create(pages, still_missing);
        if (handle)
            return handle;
        if (!pages_purge_for_block(pages, still_missing) && !more_may_come(pages, then) &&
            !(newly_idle(pages) && patience-- > 0))
            return pages_spill(pages);
    }
}

/* A large piece from the driver; in frugal mode what is kept and too large for here goes first. */
static uint64_t create_large(struct pages *pages, size_t span, size_t still_missing) {
    if (pages->frugal)
        pages_release(pages, still_missing, span);
    return pages_create(pages, span);
}

/* Gives the claimed pages memory. False: there is none, and they are empty again. */
static bool fill(struct pages *pages, struct piece *piece, struct block *block) {
    block->missing = max_u64(block->missing, piece->span); /* some were just going when counted */
    if (!piece->handle)
        piece->handle = piece->span > 1 ? create_large(pages, piece->span, block->missing)
                                        : find_memory(pages, block->missing);
    bool filled =
        piece->handle && REAL(cuMemMap)(page_address(piece->page), piece->span * PAGE_BYTES, 0,
                                        pages_real_handle(piece->handle), 0) == CUDA_SUCCESS;
    pages_called(pages);
    lock_take(&pages->lock);
    if (filled) {
        page_table_mapped(&pages->table, piece->page, piece->handle);
        pages->figures.maps += piece->span;
        block->missing -= piece->span;
    } else {
        page_table_unclaim(&pages->table, piece->page);
        if (piece->handle)
            pages_keep(pages, piece->handle, piece->span);
    }
    pages_changed(pages);
    lock_give(&pages->lock);
    if (!filled)
        pages_spill_return(pages);
    return filled;
}

static size_t count_missing(struct pages *pages, const struct block *block) {
    size_t missing = 0;
    lock_take(&pages->lock);
    const struct page *page = block->segment->pages + block->next;
    const struct page *end = block->segment->pages + block->end;
    for (; page < end; page = page_lead(page) + page_span(page_lead(page)))
        missing += is_missing(page);
    lock_give(&pages->lock);
    return missing;
}

/* Frugal: idle pages are used before new memory is asked for. The GPU goes on meanwhile, so it is
 * asked again before each piece. */
static bool next_piece(struct pages *pages, struct block *block, struct piece *piece) {
    if (pages->frugal && block->missing && limits_exceeded(pages, block, block->before) &&
        !pages_purge_settled(pages, block->missing) && limits_exceeded(pages, block, block->limit))
        pages_purge_for_block(pages, block->missing);
    *piece = claim(pages, block);
    return piece->page != NULL;
}

/* Maps what is missing; where a large piece cannot be had, small ones. What was mapped before
 * memory ran out stays, as idle pages: it is the caller who takes the block back. */
static bool map_missing(struct pages *pages, struct block *block) {
    struct piece piece;
    bool filled = true;
    block->missing = count_missing(pages, block);
    block->allowed = limits_single(block);
    if (block->missing)
        limits_set(pages, block);
    while (filled && next_piece(pages, block, &piece)) {
        filled = fill(pages, &piece, block);
        if (filled || piece.span == 1)
            continue;
        if (piece.handle)
            block->allowed = limits_single(block); /* it is there and cannot be mapped */
        else
            limits_fall_back(pages, block, piece.span);
        filled = true;
    }
    if (filled) {
        limits_note(pages, block);
        pages_want_spare(pages, limits_spare(block));
    }
    return filled &&
           pages_open_to_all(pages, block->segment, block->first, block->end - block->first);
}

/* Large pieces that are idle and of which the block would use a part only: where memory is short
 * the rest must not lie idle with it. Only the first and the last can be such. The lock is held. */
static size_t pick_partly_used(struct pages *pages, const struct block *block, struct page **list) {
    size_t count = 0;
    const size_t ends[] = {block->first, block->end - 1};
    for (size_t i = 0; (pages->scarce || pages->frugal) && i < ARRAY_LENGTH(ends); i++) {
        struct page *page = page_lead(&block->segment->pages[ends[i]]);
        size_t first = (size_t)(page - block->segment->pages);
        bool partly = first < block->first || first + page_span(page) > block->end;
        if (partly && page_table_pick_one(&pages->table, page))
            list[count++] = page;
    }
    pages_picked(pages, list, count);
    return count;
}

static void end_use(struct pages *pages, const struct block *block, bool done, bool pin) {
    lock_take(&pages->lock);
    if (!done)
        page_table_leave(&pages->table, block->segment, block->first, block->end - block->first);
    else if (pin)
        page_table_pin(block->segment, block->first, block->end - block->first);
    lock_give(&pages->lock);
}

/* Whether the block lacks nothing: so it is for nearly all. The lock is held. */
static bool is_there(const struct pages *pages, const struct block *block) {
    for (size_t i = block->first; i < block->end; i++) {
        const struct page *page = &block->segment->pages[i];
        if (page->granted && (page->state != PAGE_MAPPED || page->open_to < pages->access_count))
            return false;
    }
    return true;
}

bool pages_use(struct pages *pages, uint64_t address, uint64_t bytes, bool pin) {
    struct block block = {.pin = pin};
    struct page *partly_used[2];
    size_t count = 0;
    bool there = false;
    pages_spill_replace(pages, address, bytes);
    lock_take(&pages->lock);
    block.segment = page_table_find(&pages->table, address);
    if (block.segment) {
        block.next = block.first = page_table_first(block.segment, address);
        block.end = block.first + page_table_span(block.segment, address, bytes);
        count = pick_partly_used(pages, &block, partly_used);
        page_table_use(&pages->table, block.segment, block.first, block.end - block.first);
        there = !pin && is_there(pages, &block);
    }
    lock_give(&pages->lock);
    if (!block.segment || LIKELY(there))
        return true;
    pages_unmap(pages, partly_used, count);
    bool done = map_missing(pages, &block);
    if (!done || pin)
        end_use(pages, &block, done, pin);
    return done;
}

/* PyTorch has waited for the GPU by then (torch.cuda.graph does), so that most of the time it needs
 * only be asked. */
void pages_capture_nears(struct pages *pages) {
    pages_settle_in_turn(pages);
    if (newly_idle(pages) && limits_short(pages))
        pages_settle_now(pages);
}

void pages_pin_live(struct pages *pages) {
    lock_take(&pages->lock);
    page_table_pin_live(&pages->table);
    lock_give(&pages->lock);
}

void pages_refused(struct pages *pages, uint64_t address, uint64_t bytes) {
    lock_take(&pages->lock);
    const struct page_segment *segment = page_table_find(&pages->table, address);
    if (segment && (segment->counted || !segment->range))
        pages->figures.refused_bytes += bytes;
    lock_give(&pages->lock);
}

void pages_leave(struct pages *pages, uint64_t address, uint64_t bytes, bool sure) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    if (segment && !segment->ended)
        page_table_leave(&pages->table, segment, page_table_first(segment, address),
                         page_table_span(segment, address, bytes));
    if (segment && !sure)
        pages->unsure_tick = pages->table.tick;
    lock_give(&pages->lock);
}

bool pages_own(struct pages *pages, uint64_t address) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    bool own = segment && segment->pages[page_table_first(segment, address)].granted;
    lock_give(&pages->lock);
    return own;
}

uint64_t pages_changes(const struct pages *pages) {
    return atomic_load_explicit(&pages->changes, memory_order_acquire);
}

struct pages_figures pages_figures(struct pages *pages) {
    lock_take(&pages->lock);
    struct pages_figures figures = pages->figures;
    figures.reserved_bytes = pages->table.reserved_pages * PAGE_BYTES;
    figures.mapped_bytes = pages->table.mapped_pages * PAGE_BYTES;
    figures.idle_bytes = pages->table.idle_pages * PAGE_BYTES;
    figures.kept_bytes = pages->kept_count * PAGE_BYTES;
    figures.moving_bytes = pages->moving * PAGE_BYTES;
    figures.physical_bytes = minus_u64(pages->handle_count, pages->making) * PAGE_BYTES;
    figures.spilled_bytes = pages->host.count * PAGE_BYTES;
    figures.may_spill_bytes = pages->host.room * PAGE_BYTES;
    figures.spilled_ns = pages_spilled_ns(pages);
    figures.calls = atomic_load_explicit(&pages->calls, memory_order_relaxed);
    lock_give(&pages->lock);
    return figures;
}
