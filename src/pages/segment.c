/* segment.c: address space: segments of our own, and how much of it could be backed. */
#include "pages/internal.h"

/* What could be had for one more segment: free memory, kept and idle pages. */
static uint64_t available_bytes(struct pages *pages) {
    size_t free_bytes = 0, total_bytes = 0;
    if (REAL(cuMemGetInfo_v2)(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return 0;
    lock_take(&pages->lock);
    uint64_t more = pages->table.idle_pages + pages->kept_count + pages->moving;
    lock_give(&pages->lock);
    return free_bytes + more * PAGE_BYTES;
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
    }
}

uint64_t pages_segment(struct pages *pages, uint64_t bytes, uint64_t stream) {
    CUdeviceptr address = 0;
    pages_sweep(pages);
    if (available_bytes(pages) < bytes ||
        REAL(cuMemAddressReserve)(&address, bytes, PAGE_BYTES, 0, 0) != CUDA_SUCCESS)
        return 0;
    pages_know_stream(pages, stream);
    lock_take(&pages->lock);
    bool added = page_table_add(&pages->table, address, bytes, stream) != NULL;
    lock_give(&pages->lock);
    if (added)
        return address;
    REAL(cuMemAddressFree)(address, bytes);
    return 0;
}

/* Idle pages of a segment that has ended, which the GPU has finished with. */
static size_t pick_from(struct pages *pages, struct page_segment *segment, struct page **list) {
    size_t count = 0;
    lock_take(&pages->lock);
    for (size_t i = 0; i < segment->page_count && count < BATCH; i++)
        if (page_table_pick_one(&pages->table, &segment->pages[i]))
            list[count++] = &segment->pages[i];
    pages->moving += count;
    lock_give(&pages->lock);
    return count;
}

/* Pages that another thread is unmapping just now, and all of them where the GPU could not be
 * waited for, go later. */
bool pages_end(struct pages *pages, uint64_t address) {
    struct page *list[BATCH];
    size_t count;
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    bool ours = segment && segment->address == address && !segment->ended;
    if (ours)
        page_table_end(&pages->table, segment);
    lock_give(&pages->lock);
    if (!ours)
        return false;
    if (pages_settle_now(pages))
        while ((count = pick_from(pages, segment, list)) > 0 && pages_unmap(pages, list, count) > 0)
            continue;
    lock_take(&pages->lock);
    segment->held = false;
    lock_give(&pages->lock);
    pages_sweep(pages);
    return true;
}

bool pages_could_back(struct pages *pages, uint64_t bytes) {
    return available_bytes(pages) >= bytes;
}
