/* page_table_valid.c: all invariants of the page table, counted anew: for tests, and for a debug
 * build. */
#include "vm/page_table.h"

struct sums {
    size_t mapped, idle, listed, attached, reserved, returned, gone;
};

static size_t used_in(const struct page *lead) {
    size_t used = 0;
    for (const struct page *page = lead; page < lead + lead->npages; page++)
        used += page->live || page->pinned || (page->guards && page->attached);
    return used;
}

static bool page_is_valid(const struct page *page, struct sums *sums) {
    const struct page *lead = page_lead(page);
    bool leads = page == lead && page->state == PAGE_MAPPED;
    sums->mapped += page->handle ? page->npages : 0;
    sums->idle += page->idle != IDLE_NOT ? page->npages : 0;
    if (page->state == PAGE_EMPTY ? page->npages || page->back
                                  : page->back >= lead->npages || page->state != lead->state)
        return false;
    if (page != lead && (page->handle || page->npages))
        return false;
    return (page->idle != IDLE_NOT) == (leads && !page->used) &&
           (!leads || page->used == used_in(page)) && (!leads || page->handle) &&
           (page->state != PAGE_EMPTY || !page->handle) &&
           (page->attached || (!page->live && !page->pinned));
}

static bool segment_pages_valid(const struct page_segment *segment, struct sums *sums) {
    size_t filled = 0;
    for (size_t i = 0; i < segment->page_count; i++) {
        const struct page *page = &segment->pages[i];
        if (!page_is_valid(page, sums))
            return false;
        filled += page->state != PAGE_EMPTY;
        bool attached = page->attached && !segment->ended;
        sums->attached += attached;
        sums->reserved += attached && (!segment->range || segment->counted);
    }
    sums->returned += segment->ended && filled;
    sums->gone += segment->ended && !filled;
    return filled == segment->filled_count;
}

static bool all_attached(const struct page *lead) {
    bool attached = true;
    for (const struct page *page = lead; page < lead + lead->npages; page++)
        attached = attached && page->attached && !lead->segment->ended;
    return attached;
}

/* The longest idle first, each in the list of its size. In a pool idle memory may be returned
 * though it is attached. */
static bool list_is_valid(const struct page_table *table, enum page_idle idle, size_t size,
                          struct sums *sums) {
    const struct page_list *list = &table->idle[idle][size];
    uint64_t epoch = 0, idle_ns = 0;
    for (const struct page *page = list->oldest; page; page = page->newer) {
        bool returned = !all_attached(page) || (page->segment->range && !page->segment->counted);
        if (page->idle != idle || page->idle_epoch < epoch || page->idle_ns < idle_ns ||
            page->npages != extent_npages(size) || (page->newer && page->newer->older != page) ||
            (idle == IDLE_RETURNED ? !returned : !all_attached(page)))
            return false;
        epoch = page->idle_epoch;
        idle_ns = page->idle_ns;
        sums->listed += page->npages;
    }
    return list->newest ? !list->newest->newer : !list->oldest;
}

static bool returned_are_valid(const struct page_table *table, const struct sums *sums) {
    size_t returned = 0, gone = 0;
    uint64_t epoch = 0;
    for (const struct page_segment *s = table->returned_oldest; s; s = s->newer, returned++) {
        if (!s->ended || s->end_epoch < epoch || (s->newer && s->newer->older != s))
            return false;
        epoch = s->end_epoch;
    }
    for (const struct page_segment *s = table->gone; s; s = s->newer)
        gone++;
    return returned == table->returned_count && returned == sums->returned && gone == sums->gone;
}

bool page_table_is_valid(const struct page_table *table) {
    struct sums sums = {0};
    for (size_t i = 0; i < table->segment_count; i++) {
        const struct page_segment *segment = table->segments[i];
        const struct page_segment *before = i > 0 ? table->segments[i - 1] : NULL;
        if ((before && segment->address < before->address + before->bytes) ||
            !segment_pages_valid(segment, &sums))
            return false;
    }
    for (size_t idle = IDLE_KEPT; idle < IDLE_LISTS; idle++)
        for (size_t size = 0; size < EXTENT_SIZES; size++)
            if (!list_is_valid(table, (enum page_idle)idle, size, &sums))
                return false;
    return returned_are_valid(table, &sums) && sums.mapped == table->mapped_pages &&
           sums.idle == table->idle_pages[IDLE_KEPT] + table->idle_pages[IDLE_RETURNED] &&
           sums.attached == table->attached_pages && sums.listed == sums.idle &&
           sums.reserved == table->reserved_pages;
}
