/* page_table.c: see page_table.h. It must stay pure: it decides about pages, and calls nothing. */
#include "vm/page_table.h"

#include <string.h>

static size_t position(const struct page_table *table, uint64_t address) {
    size_t low = 0, high = table->segment_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->segments[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct page_segment *page_table_lookup(const struct page_table *table, uint64_t address) {
    size_t i = position(table, address);
    if (i == 0)
        return NULL;
    struct page_segment *segment = table->segments[i - 1];
    return address - segment->address < segment->bytes ? segment : NULL;
}

static bool make_room(struct page_table *table) {
    if (table->segment_count < table->segment_capacity)
        return true;
    size_t capacity = table->segment_capacity ? table->segment_capacity * 2 : 512;
    struct page_segment **larger = memory_grow(
        table->segments, table->segment_capacity * sizeof *larger, capacity * sizeof *larger);
    if (!larger)
        return false;
    table->segments = larger;
    table->segment_capacity = capacity;
    return true;
}

static size_t book_bytes(size_t page_count) {
    return sizeof(struct page_segment) + page_count * sizeof(struct page);
}

bool page_table_prepare(struct page_table *table, uint64_t bytes) {
    size_t count = bytes / PAGE_BYTES;
    if (!make_room(table))
        return false;
    if (table->spare_pages >= count)
        return true;
    struct page_segment *larger = memory_map(book_bytes(count));
    if (!larger)
        return false;
    if (table->spare)
        memory_unmap(table->spare, book_bytes(table->spare_pages));
    table->spare = larger;
    table->spare_pages = count;
    return true;
}

/* A spare one that is too large serves, too: pages of it that are never touched cost no memory. */
static struct page_segment *new_books(struct page_table *table, size_t count) {
    struct page_segment *segment = memory_map(book_bytes(count));
    if (segment || table->spare_pages < count)
        return segment;
    segment = table->spare;
    table->spare = NULL;
    table->spare_pages = 0;
    return segment;
}

static struct page_segment *add_books(struct page_table *table, uint64_t address, uint64_t bytes) {
    size_t i = position(table, address), count = bytes / PAGE_BYTES;
    bool overlaps = page_table_lookup(table, address) ||
                    (i < table->segment_count && table->segments[i]->address - address < bytes);
    if (overlaps || !count || !make_room(table))
        return NULL;
    struct page_segment *segment = new_books(table, count);
    if (!segment)
        return NULL;
    segment->address = address;
    segment->bytes = bytes;
    segment->page_count = count;
    for (size_t k = 0; k < count; k++)
        segment->pages[k].segment = segment;
    memmove(table->segments + i + 1, table->segments + i,
            (table->segment_count - i) * sizeof *table->segments);
    table->segments[i] = segment;
    table->segment_count++;
    return segment;
}

static void count_attached(struct page_table *table, const struct page_segment *segment,
                           int64_t count) {
    table->attached_pages += (uint64_t)count;
    if (segment->counted)
        table->reserved_pages += (uint64_t)count;
}

struct page_segment *page_table_add(struct page_table *table, uint64_t address, uint64_t bytes,
                                    uint64_t stream) {
    struct page_segment *segment = add_books(table, address, bytes);
    if (!segment)
        return NULL;
    segment->stream = stream;
    segment->counted = true;
    for (size_t i = 0; i < segment->page_count; i++)
        segment->pages[i].attached = true;
    count_attached(table, segment, (int64_t)segment->page_count);
    return segment;
}

struct page_segment *page_table_add_range(struct page_table *table, uint64_t address,
                                          uint64_t bytes, bool counted) {
    struct page_segment *segment = add_books(table, address, bytes);
    if (segment) {
        segment->range = true;
        segment->counted = counted;
    }
    return segment;
}

void page_table_remove(struct page_table *table, struct page_segment *segment) {
    size_t i = position(table, segment->address) - 1;
    table->segment_count--;
    memmove(table->segments + i, table->segments + i + 1,
            (table->segment_count - i) * sizeof *table->segments);
    if (segment->ended)
        table->gone = segment->newer;
    else if (!segment->range)
        count_attached(table, segment, -(int64_t)segment->page_count);
    memory_unmap(segment, book_bytes(segment->page_count));
}

size_t page_table_first(const struct page_segment *segment, uint64_t address) {
    return (address - segment->address) / PAGE_BYTES;
}

size_t page_table_npages(const struct page_segment *segment, uint64_t address, uint64_t bytes) {
    uint64_t last = address + bytes - 1 - segment->address;
    return last / PAGE_BYTES - page_table_first(segment, address) + 1;
}

static size_t page_within(const struct page_segment *segment, uint64_t address, uint64_t bytes,
                          uint64_t reach_bytes) {
    uint64_t last = address + bytes - 1 - segment->address;
    size_t page = (last + reach_bytes) / PAGE_BYTES;
    return page != last / PAGE_BYTES && page < segment->page_count ? page : 0;
}

size_t page_table_guard(const struct page_segment *segment, uint64_t address, uint64_t bytes) {
    return page_within(segment, address, bytes, OVERREAD_BYTES);
}

uint64_t page_address(const struct page *page) {
    return page->segment->address + (uint64_t)(page - page->segment->pages) * PAGE_BYTES;
}

/* --- idle extents --- */

static void unlist(struct page_table *table, struct page *page) {
    if (page->idle == IDLE_NOT)
        return;
    struct page_list *list = &table->idle[page->idle][extent_size_index(page->npages)];
    *(page->older ? &page->older->newer : &list->oldest) = page->newer;
    *(page->newer ? &page->newer->older : &list->newest) = page->older;
    table->idle_pages[page->idle] -= page->npages;
    list->count--;
    page->older = page->newer = NULL;
    page->idle = IDLE_NOT;
}

/* PyTorch may have returned a part of it: then it goes with that part. */
static enum page_idle idle_list_of(const struct page *lead) {
    for (const struct page *page = lead; page < lead + lead->npages; page++)
        if (!page->attached || lead->segment->ended)
            return IDLE_RETURNED;
    return IDLE_KEPT;
}

static void append_idle(struct page_table *table, struct page *page, enum page_idle idle) {
    struct page_list *list = &table->idle[idle][extent_size_index(page->npages)];
    page->older = list->newest;
    page->newer = NULL;
    *(list->newest ? &list->newest->newer : &list->oldest) = page;
    list->newest = page;
    page->idle = (uint8_t)idle;
    page->idle_epoch = table->epoch;
    page->idle_ns = table->now_ns;
    table->idle_pages[idle] += page->npages;
    list->count++;
}

/* Of the pages' extents each that is idle, once, moves to the end of its list, because it was used
 * since it was put there. */
static void relist_idle(struct page_table *table, struct page_segment *segment, size_t first,
                        size_t count) {
    struct page *end = segment->pages + first + count;
    table->epoch++;
    for (struct page *page = segment->pages + first; page < end;) {
        struct page *lead = page_lead(page);
        if (lead->idle != IDLE_NOT) {
            unlist(table, lead);
            append_idle(table, lead, idle_list_of(lead));
        }
        page = lead + page_npages(lead);
    }
}

static bool in_use(const struct page *page) {
    return page->live || page->pinned || (page->guards && page->attached);
}

/* It was in use before, or not: of a mapped extent one page more, or one less, is. */
static void follow_use(struct page_table *table, struct page *page, bool used) {
    struct page *lead = page_lead(page);
    if (page->state != PAGE_MAPPED || used == in_use(page))
        return;
    if (used && --lead->used == 0)
        append_idle(table, lead, idle_list_of(lead));
    else if (!used && lead->used++ == 0)
        unlist(table, lead);
}

void page_table_mark_live(struct page_table *table, struct page_segment *segment, size_t first,
                          size_t count) {
    struct page *page = segment->pages + first, *end = page + count;
    for (; page < end; page++) {
        bool used = in_use(page);
        page->live += page->attached;
        follow_use(table, page, used);
    }
}

static void set_guards(struct page_table *table, struct page *page, uint32_t guards) {
    bool used = in_use(page);
    page->guards = guards;
    page->droppable = false;
    follow_use(table, page, used);
}

void page_table_mark_guard(struct page_table *table, struct page_segment *segment, size_t index,
                           bool live) {
    struct page *page = &segment->pages[index];
    set_guards(table, page, live ? page->guards + 1 : (uint32_t)minus_u64(page->guards, 1));
}

void page_table_note_droppable(struct page_segment *segment, size_t page, uint64_t address,
                               uint64_t bytes) {
    bool alone = segment->range && bytes >= OWN_SEGMENT_BYTES &&
                 !page_within(segment, address, bytes, -bytes % PAGE_BYTES);
    segment->pages[page].droppable = alone && segment->pages[page].guards == 1;
}

void page_table_drop_guards(struct page_table *table) {
    table->epoch++;
    for (size_t i = 0; i < table->segment_count; i++)
        for (size_t j = 0; j < table->segments[i]->page_count; j++)
            if (table->segments[i]->pages[j].droppable)
                set_guards(table, &table->segments[i]->pages[j], 0);
}

void page_table_pin(struct page_segment *segment, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        segment->pages[i].pinned = segment->pages[i].pinned || segment->pages[i].attached;
}

void page_table_mark_idle(struct page_table *table, struct page_segment *segment, size_t first,
                          size_t count) {
    struct page *page = segment->pages + first, *end = page + count;
    table->epoch++;
    for (; page < end; page++) {
        bool used = in_use(page);
        page->live -= page->attached && page->live;
        follow_use(table, page, used);
    }
}

/* Nothing lives there any more, and nothing that lived there ends right before a page. */
static void clear_pages(struct page_table *table, struct page_segment *segment, size_t first,
                        size_t count) {
    for (size_t i = first; i < first + count; i++) {
        struct page *page = &segment->pages[i];
        bool used = in_use(page);
        page->live = 0;
        page->pinned = false;
        follow_use(table, page, used);
        while (i + 1 < segment->page_count && page[1].guards)
            set_guards(table, page + 1, page[1].guards - 1);
    }
    relist_idle(table, segment, first, count);
}

static bool all_are(const struct page_segment *segment, size_t first, size_t count, bool attached) {
    for (size_t i = first; i < first + count; i++)
        if (segment->pages[i].attached != attached)
            return false;
    return true;
}

static void set_attached(struct page_table *table, struct page_segment *segment, size_t first,
                         size_t count, bool attached) {
    for (struct page *page = segment->pages + first; page < segment->pages + first + count;
         page++) {
        bool used = in_use(page);
        page->attached = attached;
        page->fresh = false;
        follow_use(table, page, used);
    }
}

bool page_table_attach(struct page_table *table, struct page_segment *segment, size_t first,
                       size_t count) {
    if (!all_are(segment, first, count, false))
        return false;
    set_attached(table, segment, first, count, true);
    relist_idle(table, segment, first, count);
    count_attached(table, segment, (int64_t)count);
    return true;
}

bool page_table_detach(struct page_table *table, struct page_segment *segment, size_t first,
                       size_t count) {
    if (!all_are(segment, first, count, true))
        return false;
    set_attached(table, segment, first, count, false);
    clear_pages(table, segment, first, count);
    count_attached(table, segment, -(int64_t)count);
    return true;
}

void page_table_return_uncounted(struct page_table *table) {
    table->epoch++;
    for (size_t size = 0; size < EXTENT_SIZES; size++) {
        struct page *page = table->idle[IDLE_KEPT][size].oldest, *newer;
        for (; page; page = newer) {
            newer = page->newer;
            if (!page->segment->range || page->segment->counted)
                continue;
            unlist(table, page);
            append_idle(table, page, IDLE_RETURNED);
        }
    }
}

/* --- segments that have ended --- */

static void list_returned(struct page_table *table, struct page_segment *segment) {
    segment->older = table->returned_newest;
    segment->newer = NULL;
    *(table->returned_newest ? &table->returned_newest->newer : &table->returned_oldest) = segment;
    table->returned_newest = segment;
    table->returned_count++;
}

static void unlist_returned(struct page_table *table, struct page_segment *segment) {
    *(segment->older ? &segment->older->newer : &table->returned_oldest) = segment->newer;
    *(segment->newer ? &segment->newer->older : &table->returned_newest) = segment->older;
    segment->older = segment->newer = NULL;
    table->returned_count--;
}

/* Its last page has gone. */
static void goes(struct page_table *table, struct page_segment *segment) {
    unlist_returned(table, segment);
    segment->newer = table->gone;
    table->gone = segment;
}

void page_table_unclaim(struct page_table *table, struct page *lead) {
    struct page_segment *segment = lead->segment;
    size_t npages = lead->npages;
    for (struct page *page = lead; page < lead + npages; page++) {
        page->state = PAGE_EMPTY;
        page->back = page->npages = page->used = 0;
        page->open_to = 0;
    }
    segment->filled_count -= npages;
    if (!segment->filled_count && segment->ended)
        goes(table, segment);
}

void page_table_end(struct page_table *table, struct page_segment *segment) {
    segment->ended = true;
    clear_pages(table, segment, 0, segment->page_count);
    segment->end_epoch = table->epoch;
    if (!segment->range)
        count_attached(table, segment, -(int64_t)segment->page_count);
    list_returned(table, segment);
    if (!segment->filled_count)
        goes(table, segment);
}

static bool can_revive(const struct page_table *table, const struct page_segment *segment,
                       const struct revival *revival) {
    bool same = revival->in_order && segment->stream == revival->stream;
    return segment->range == revival->range && segment->bytes == revival->bytes &&
           segment->counted && (same || segment->end_epoch <= table->fenced_epoch);
}

struct page_segment *page_table_revive(struct page_table *table, const struct revival *revival) {
    struct page_segment *segment = table->returned_newest;
    while (segment && !can_revive(table, segment, revival))
        segment = segment->older;
    if (!segment)
        return NULL;
    unlist_returned(table, segment);
    segment->ended = false;
    segment->stream = revival->stream;
    if (segment->range)
        return segment; /* nothing of it is attached */
    relist_idle(table, segment, 0, segment->page_count);
    count_attached(table, segment, (int64_t)segment->page_count);
    return segment;
}

void page_table_stream_gone(struct page_table *table, uint64_t stream) {
    for (size_t i = 0; i < table->segment_count; i++)
        if (table->segments[i]->stream == stream)
            table->segments[i]->stream = UINT64_MAX;
}

void page_table_claim(struct page *page, size_t npages) {
    for (size_t i = 0; i < npages; i++) {
        page[i].state = PAGE_BUSY;
        page[i].fresh = false;
        page[i].back = (uint16_t)i;
    }
    page->npages = (uint16_t)npages;
    page->segment->filled_count += npages;
}

void page_table_put_back(struct page_table *table, struct page *page) {
    size_t used = 0;
    for (size_t i = 0; i < page->npages; i++) {
        page[i].state = PAGE_MAPPED;
        used += in_use(&page[i]);
    }
    page->used = (uint16_t)used;
    if (!used)
        append_idle(table, page, idle_list_of(page));
}

void page_table_mapped(struct page_table *table, struct page *page, uint64_t handle) {
    page->handle = handle;
    table->mapped_pages += page->npages;
    page_table_put_back(table, page);
}

void page_table_unmapped(struct page_table *table, struct page *page) {
    page->handle = 0;
    table->mapped_pages -= page->npages;
    page_table_unclaim(table, page);
}

void page_table_take_victim(struct page_table *table, struct page *page) {
    unlist(table, page);
    table->in_flight_pages += page->npages;
    for (size_t i = 0; i < page->npages; i++)
        page[i].state = PAGE_BUSY;
}

void page_table_pin_live(struct page_table *table) {
    for (size_t i = 0; i < table->segment_count; i++)
        for (size_t page = 0; table->segments[i]->counted && page < table->segments[i]->page_count;
             page++)
            table->segments[i]->pages[page].pinned |= table->segments[i]->pages[page].live > 0;
}
