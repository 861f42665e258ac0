/* range.c: ranges whose addresses somebody else has reserved. Blocks live only where it is granted;
 * what was granted once keeps its pages, idle, as parked segments do, so that programs that empty
 * PyTorch's cache all the time do not reach the driver. Nobody is waited for. */
#include "vm/vm_internal.h"

bool pages_range(struct pages *pages, uint64_t address, uint64_t bytes, bool counted) {
    lock_take(&pages->lock);
    bool added = page_table_add_range(&pages->table, address, bytes, counted) != NULL;
    lock_give(&pages->lock);
    return added;
}

static bool is_granted(const struct page_segment *segment) {
    for (size_t i = 0; i < segment->page_count; i++)
        if (segment->pages[i].granted)
            return true;
    return false;
}

bool pages_range_end(struct pages *pages, uint64_t address) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    bool ends = segment && segment->range && segment->address == address && !segment->ended &&
                !is_granted(segment);
    if (ends)
        page_table_end(&pages->table, segment);
    lock_give(&pages->lock);
    if (ends)
        pages_sweep(pages);
    return ends;
}

/* Pages of a range. */
struct part {
    struct page_segment *segment; /* NULL: not in one range */
    size_t first, count;
};

/* The lock is held. */
static struct part find(struct pages *pages, uint64_t address, uint64_t bytes) {
    struct page_segment *segment = page_table_find(&pages->table, address);
    if (!segment || !segment->range || segment->ended || !bytes || address % PAGE_BYTES ||
        bytes % PAGE_BYTES || bytes > segment->address + segment->bytes - address)
        return (struct part){0};
    return (struct part){segment, page_table_first(segment, address), bytes / PAGE_BYTES};
}

bool pages_grant(struct pages *pages, uint64_t address, uint64_t bytes) {
    lock_take(&pages->lock);
    struct part part = find(pages, address, bytes);
    bool granted =
        part.segment && page_table_grant(&pages->table, part.segment, part.first, part.count);
    lock_give(&pages->lock);
    return granted;
}

/* Whoever is granted the addresses again finds there what is mapped: it is the owner of the range
 * who uses them, and whose work is in order. Elsewhere it serves when the GPU has finished. */
bool pages_revoke(struct pages *pages, uint64_t address, uint64_t bytes) {
    lock_take(&pages->lock);
    struct part part = find(pages, address, bytes);
    bool revoked =
        part.segment && page_table_revoke(&pages->table, part.segment, part.first, part.count);
    lock_give(&pages->lock);
    return revoked;
}

/* --- what has been revoked for long --- */

void pages_purge_revoked(struct pages *pages, uint64_t tick) {
    struct page *list[BATCH];
    size_t count = 0;
    do {
        lock_take(&pages->lock);
        count = page_table_pick_revoked(&pages->table, tick, BATCH, list);
        pages_picked(pages, list, count);
        lock_give(&pages->lock);
    } while (count && pages_unmap(pages, list, count));
}
