/* page_table_valid.c: all invariants of the page table, counted anew; for tests only. */
#include "vm/page_table.h"

struct sums {
    size_t mapped, idle, listed, reserved, parked, gone;
};

static size_t used_in(const struct page *lead) {
    size_t used = 0;
    for (const struct page *page = lead; page < lead + lead->span; page++)
        used += page->live || page->pinned;
    return used;
}

static bool page_is_valid(const struct page *page, struct sums *sums) {
    const struct page *lead = page_lead(page);
    bool leads = page == lead && page->state == PAGE_MAPPED;
    sums->mapped += page->handle ? page->span : 0;
    sums->idle += page->idle ? page->span : 0;
    if (page->state == PAGE_EMPTY ? page->span || page->back
                                  : page->back >= lead->span || page->state != lead->state)
        return false;
    if (page != lead && (page->handle || page->span))
        return false;
    return page->idle == (leads && !page->used) && (!leads || page->used == used_in(page)) &&
           (!leads || page->handle) && (page->state != PAGE_EMPTY || !page->handle) &&
           (page->granted || (!page->live && !page->pinned));
}

static bool segment_is_valid(const struct page_segment *segment, struct sums *sums) {
    size_t filled = 0;
    for (size_t i = 0; i < segment->page_count; i++) {
        const struct page *page = &segment->pages[i];
        if (!page_is_valid(page, sums))
            return false;
        filled += page->state != PAGE_EMPTY;
        sums->reserved += page->granted && !segment->ended && (!segment->range || segment->counted);
    }
    sums->parked += segment->ended && filled;
    sums->gone += segment->ended && !filled;
    return filled == segment->filled_count;
}

/* The longest idle first, each in the list of its size. */
static bool list_is_valid(const struct page_table *table, size_t size, struct sums *sums) {
    uint64_t tick = 0;
    for (const struct page *page = table->oldest[size]; page; page = page->newer) {
        if (page->idle_tick < tick || page->span != page_spans[size] ||
            (page->newer && page->newer->older != page))
            return false;
        tick = page->idle_tick;
        sums->listed += page->span;
    }
    return table->newest[size] ? !table->newest[size]->newer : !table->oldest[size];
}

static bool parked_are_valid(const struct page_table *table, const struct sums *sums) {
    size_t parked = 0, gone = 0;
    uint64_t tick = 0;
    for (const struct page_segment *s = table->parked_oldest; s; s = s->newer, parked++) {
        if (!s->ended || s->end_tick < tick || (s->newer && s->newer->older != s))
            return false;
        tick = s->end_tick;
    }
    for (const struct page_segment *s = table->gone; s; s = s->newer)
        gone++;
    return parked == table->parked_count && parked == sums->parked && gone == sums->gone;
}

bool page_table_is_valid(const struct page_table *table) {
    struct sums sums = {0};
    for (size_t i = 0; i < table->segment_count; i++) {
        const struct page_segment *segment = table->segments[i];
        const struct page_segment *before = i > 0 ? table->segments[i - 1] : NULL;
        if ((before && segment->address < before->address + before->bytes) ||
            !segment_is_valid(segment, &sums))
            return false;
    }
    for (size_t size = 0; size < PAGE_SIZES; size++)
        if (!list_is_valid(table, size, &sums))
            return false;
    return parked_are_valid(table, &sums) && sums.mapped == table->mapped_pages &&
           sums.idle == table->idle_pages && sums.listed == sums.idle &&
           sums.reserved == table->reserved_pages;
}
