/* range.c: ranges whose addresses somebody else has reserved. Only what is granted of them is ours,
 * and nothing of ours may be mapped where it is not granted any more. */
#include "pages/internal.h"

#include <sched.h>

bool pages_range(struct pages *pages, uint64_t address, uint64_t bytes, bool counted) {
    lock_take(&pages->lock);
    bool added = page_table_add_range(&pages->table, address, bytes, counted) != NULL;
    lock_give(&pages->lock);
    return added;
}

/* Nothing granted, nothing mapped. */
static bool is_unused(const struct page_segment *segment) {
    for (size_t i = 0; i < segment->page_count; i++)
        if (segment->pages[i].granted || segment->pages[i].state != PAGE_EMPTY)
            return false;
    return true;
}

bool pages_range_end(struct pages *pages, uint64_t address) {
    lock_take(&pages->lock);
    struct page_segment *segment = page_table_find(&pages->table, address);
    bool ends = segment && segment->range && segment->address == address && is_unused(segment);
    if (ends)
        page_table_remove(&pages->table, segment);
    lock_give(&pages->lock);
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
    if (!segment || !segment->range || !bytes || address % PAGE_BYTES || bytes % PAGE_BYTES ||
        bytes > segment->address + segment->bytes - address)
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

/* What of the part another thread is not working on. *busy: something else is left. */
static size_t pick_from(struct pages *pages, const struct part *part, struct page **list,
                        bool *busy) {
    size_t count = 0;
    *busy = false;
    lock_take(&pages->lock);
    for (size_t i = part->first; i < part->first + part->count && count < BATCH; i++) {
        struct page *page = page_lead(&part->segment->pages[i]);
        if (page_table_pick_one(&pages->table, page))
            list[count++] = page;
        else if (page->state != PAGE_EMPTY)
            *busy = true;
    }
    pages_picked(pages, list, count);
    lock_give(&pages->lock);
    return count;
}

/* False: the driver refused. */
static bool unmap_all(struct pages *pages, const struct part *part) {
    struct page *list[BATCH];
    bool busy;
    for (;;) {
        size_t count = pick_from(pages, part, list, &busy);
        if (!count && !busy)
            return true;
        if (count && !pages_unmap(pages, list, count))
            return false;
        if (!count)
            sched_yield();
    }
}

/* A flush revokes many parts in a row, and most of the time waits once for all of them. */
static bool is_settled(struct pages *pages, const struct part *part) {
    bool settled = true;
    lock_take(&pages->lock);
    for (size_t i = part->first; i < part->first + part->count; i++) {
        const struct page *page = page_lead(&part->segment->pages[i]);
        settled = settled && (page->state == PAGE_EMPTY ||
                              (page->idle && page->idle_tick <= pages->table.settled_tick));
    }
    lock_give(&pages->lock);
    return settled;
}

bool pages_revoke(struct pages *pages, uint64_t address, uint64_t bytes) {
    lock_take(&pages->lock);
    struct part part = find(pages, address, bytes);
    bool revoked =
        part.segment && page_table_revoke(&pages->table, part.segment, part.first, part.count);
    lock_give(&pages->lock);
    if (!revoked)
        return false;
    if ((is_settled(pages, &part) || pages_settle_now(pages)) && unmap_all(pages, &part))
        return true;
    lock_take(&pages->lock);
    page_table_grant(&pages->table, part.segment, part.first, part.count);
    lock_give(&pages->lock);
    return false;
}
