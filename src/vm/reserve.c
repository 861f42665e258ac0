/* reserve.c: address space: segments of our own, and how much of it could be backed. A segment that
 * has ended is parked with what is mapped there, so that programs that empty PyTorch's cache all
 * the time do not reach the driver; nobody is waited for. */
#include "vm/vm_internal.h"

#include <sched.h>

/* So many may be parked; beyond that, and when they have been for long, they go. */
enum { MAX_PARKED = 512 };

/* Where our own thread is just making a piece, it may be neither with us nor with the driver: it is
 * waited for before the answer is no. */
bool pages_could_back(struct pages *pages, uint64_t bytes) {
    for (;;) {
        size_t free_bytes = 0, total_bytes = 0;
        lock_take(&pages->lock);
        bool making = pages->making > 0;
        uint64_t at_hand = (pages->table.idle_pages + pages->kept_count + pages->moving +
                            pages->host.room - pages->host.count) *
                           PAGE_BYTES;
        lock_give(&pages->lock);
        if (at_hand >= bytes)
            return true;
        if (REAL(cuMemGetInfo_v2)(&free_bytes, &total_bytes) != CUDA_SUCCESS || !making ||
            at_hand + free_bytes >= bytes)
            return at_hand + free_bytes >= bytes;
        sched_yield();
    }
}

/* The addresses of segments that have ended go back once nothing is mapped there. */
void pages_sweep(struct pages *pages) {
    for (;;) {
        lock_take(&pages->lock);
        struct page_segment *segment = page_table_ended(&pages->table);
        uint64_t address = segment ? segment->address : 0, bytes = segment ? segment->bytes : 0;
        if (segment)
            page_table_remove(&pages->table, segment);
        lock_give(&pages->lock);
        if (!address)
            return;
        REAL(cuMemAddressFree)(address, bytes);
        pages_called(pages);
        pages_changed(pages);
    }
}

/* --- parked segments --- */

/* Work of a new owner on the same stream comes after that of the old one, if it is known that only
 * this stream was used. */
static uint64_t unpark(struct pages *pages, uint64_t bytes, uint64_t stream) {
    lock_take(&pages->lock);
    bool in_order = stream != STREAM_PER_THREAD && !pages->whole_context &&
                    pages->unsure_tick <= pages->table.settled_tick;
    struct page_segment *segment = page_table_unpark(&pages->table, bytes, stream, in_order);
    uint64_t address = segment ? segment->address : 0;
    pages->figures.unparked += address != 0;
    lock_give(&pages->lock);
    return address;
}

/* Another stream's may do if the GPU has finished with it. */
static uint64_t unpark_settled(struct pages *pages, uint64_t bytes, uint64_t stream) {
    uint64_t address = unpark(pages, bytes, stream);
    lock_take(&pages->lock);
    bool others = pages->table.parked_count > 0;
    lock_give(&pages->lock);
    if (address || !others)
        return address;
    pages_settle_later(pages, false);
    return unpark(pages, bytes, stream);
}

/* The pages of the segment parked for longest that the GPU has finished with. Returns how many. */
static size_t purge_oldest_parked(struct pages *pages, uint64_t tick, size_t allowed) {
    struct page *list[BATCH];
    size_t count = 0;
    lock_take(&pages->lock);
    if (pages->table.parked_count > allowed)
        count = page_table_pick_parked(&pages->table, tick, BATCH, list);
    pages_picked(pages, list, count);
    lock_give(&pages->lock);
    return count ? pages_unmap(pages, list, count) : 0;
}

void pages_purge_parked(struct pages *pages, uint64_t tick, size_t allowed) {
    while (purge_oldest_parked(pages, tick, allowed) > 0)
        continue;
    pages_sweep(pages);
}

size_t pages_purge_ended_ranges(struct pages *pages, size_t want) {
    struct page *list[BATCH];
    size_t done = 0, count = 0, unmapped = 0;
    lock_take(&pages->lock);
    bool any = want && page_table_parked_range(&pages->table);
    lock_give(&pages->lock);
    if (any)
        pages_settle_later(pages, false);
    do {
        lock_take(&pages->lock);
        struct page_segment *range = any ? page_table_parked_range(&pages->table) : NULL;
        count =
            range ? page_table_pick_in(&pages->table, range, min_u64(want - done, BATCH), list) : 0;
        pages_picked(pages, list, count);
        lock_give(&pages->lock);
        unmapped = count ? pages_unmap(pages, list, count) : 0;
        done += unmapped;
    } while (unmapped && done < want);
    return done;
}

/* --- segments --- */

static uint64_t reserve(struct pages *pages, uint64_t bytes, uint64_t stream) {
    CUdeviceptr address = 0;
    pages_called(pages);
    pages_changed(pages);
    if (REAL(cuMemAddressReserve)(&address, bytes, PAGE_BYTES, 0, 0) != CUDA_SUCCESS)
        return 0;
    lock_take(&pages->lock);
    bool added = page_table_add(&pages->table, address, bytes, stream) != NULL;
    lock_give(&pages->lock);
    if (added)
        return address;
    REAL(cuMemAddressFree)(address, bytes);
    return 0;
}

uint64_t pages_segment(struct pages *pages, uint64_t bytes, uint64_t stream) {
    pages_sweep(pages);
    if (!pages_could_back(pages, bytes))
        return 0;
    pages_know_stream(pages, stream);
    uint64_t address = unpark_settled(pages, bytes, stream);
    return address ? address : reserve(pages, bytes, stream);
}

bool pages_end(struct pages *pages, uint64_t address) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    bool ours = segment && !segment->range && segment->address == address && !segment->ended;
    if (ours)
        page_table_end(&pages->table, segment);
    bool many = pages->table.parked_count > MAX_PARKED;
    lock_give(&pages->lock);
    if (many) {
        pages_settle_later(pages, false);
        pages_purge_parked(pages, UINT64_MAX, MAX_PARKED);
    }
    return ours;
}
