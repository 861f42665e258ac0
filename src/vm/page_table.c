/* page_table.c: see page_table.h. It must stay pure: every decision about pages is made here, none of the
 * calls. */
#include "vm/page_table.h"

#include "base/base.h"

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

struct page_segment *page_table_find(const struct page_table *table, uint64_t address) {
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

static struct page_segment *add(struct page_table *table, uint64_t address, uint64_t bytes) {
    size_t i = position(table, address), count = bytes / PAGE_BYTES;
    bool overlaps = page_table_find(table, address) ||
                    (i < table->segment_count && table->segments[i]->address - address < bytes);
    if (overlaps || !count || !make_room(table))
        return NULL;
    struct page_segment *segment = memory_map(book_bytes(count));
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

struct page_segment *page_table_add(struct page_table *table, uint64_t address, uint64_t bytes,
                                    uint64_t stream) {
    struct page_segment *segment = add(table, address, bytes);
    if (!segment)
        return NULL;
    segment->stream = stream;
    for (size_t i = 0; i < segment->page_count; i++)
        segment->pages[i].granted = true;
    table->reserved_pages += segment->page_count;
    return segment;
}

struct page_segment *page_table_add_range(struct page_table *table, uint64_t address,
                                          uint64_t bytes, bool counted) {
    struct page_segment *segment = add(table, address, bytes);
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
        table->reserved_pages -= segment->page_count;
    memory_unmap(segment, book_bytes(segment->page_count));
}

size_t page_table_first(const struct page_segment *segment, uint64_t address) {
    return (address - segment->address) / PAGE_BYTES;
}

size_t page_table_span(const struct page_segment *segment, uint64_t address, uint64_t bytes) {
    uint64_t last = address + bytes - 1 - segment->address;
    return last / PAGE_BYTES - page_table_first(segment, address) + 1;
}

uint64_t page_address(const struct page *page) {
    return page->segment->address + (uint64_t)(page - page->segment->pages) * PAGE_BYTES;
}

const size_t page_spans[PAGE_SIZES] = {1, 2, 4, 8, 16, 32, LARGEST_SPAN};

size_t page_size_index(size_t span) {
    return span ? (size_t)(63 - __builtin_clzll(span)) : 0;
}

static void unlist(struct page_table *table, struct page *page) {
    if (!page->idle)
        return;
    size_t size = page_size_index(page->span);
    *(page->older ? &page->older->newer : &table->oldest[size]) = page->newer;
    *(page->newer ? &page->newer->older : &table->newest[size]) = page->older;
    page->older = page->newer = NULL;
    page->idle = false;
    table->idle_pages -= page->span;
}

static void list(struct page_table *table, struct page *page) {
    size_t size = page_size_index(page->span);
    page->older = table->newest[size];
    page->newer = NULL;
    *(table->newest[size] ? &table->newest[size]->newer : &table->oldest[size]) = page;
    table->newest[size] = page;
    page->idle = true;
    page->idle_tick = table->tick;
    table->idle_pages += page->span;
}

static bool in_use(const struct page *page) {
    return page->live || page->pinned;
}

/* Of a mapped piece one page more, or one less, is in use. */
static void comes_into_use(struct page_table *table, struct page *page) {
    struct page *lead = page_lead(page);
    if (page->state == PAGE_MAPPED && lead->used++ == 0)
        unlist(table, lead);
}

static void goes_out_of_use(struct page_table *table, struct page *page) {
    struct page *lead = page_lead(page);
    if (page->state == PAGE_MAPPED && --lead->used == 0)
        list(table, lead);
}

void page_table_use(struct page_table *table, struct page_segment *segment, size_t first,
                    size_t count) {
    struct page *page = segment->pages + first, *end = page + count;
    for (; page < end; page++) {
        if (!page->granted)
            continue;
        if (!in_use(page))
            comes_into_use(table, page);
        page->live++;
    }
}

void page_table_pin(struct page_segment *segment, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        segment->pages[i].pinned = segment->pages[i].pinned || segment->pages[i].granted;
}

void page_table_leave(struct page_table *table, struct page_segment *segment, size_t first,
                      size_t count) {
    struct page *page = segment->pages + first, *end = page + count;
    table->tick++;
    for (; page < end; page++) {
        if (!page->granted || !page->live)
            continue;
        page->live--;
        if (!in_use(page))
            goes_out_of_use(table, page);
    }
}

/* Nothing lives there any more. What was idle before is so anew: its latest use may be later than
 * what the list knows. */
static void clear(struct page_table *table, struct page_segment *segment, size_t first,
                  size_t count) {
    struct page *page = segment->pages + first, *end = page + count;
    table->tick++;
    for (; page < end; page++) {
        struct page *lead = page_lead(page);
        bool used = in_use(page);
        page->live = 0;
        page->pinned = false;
        if (used) {
            goes_out_of_use(table, page);
        } else if (lead->idle && lead->idle_tick != table->tick) {
            unlist(table, lead);
            list(table, lead);
        }
    }
}

static bool all_are(const struct page_segment *segment, size_t first, size_t count, bool granted) {
    for (size_t i = first; i < first + count; i++)
        if (segment->pages[i].granted != granted)
            return false;
    return true;
}

bool page_table_grant(struct page_table *table, struct page_segment *segment, size_t first,
                      size_t count) {
    if (!all_are(segment, first, count, false))
        return false;
    for (size_t i = first; i < first + count; i++)
        segment->pages[i].granted = true;
    table->reserved_pages += segment->counted ? count : 0;
    return true;
}

bool page_table_revoke(struct page_table *table, struct page_segment *segment, size_t first,
                       size_t count) {
    if (!all_are(segment, first, count, true))
        return false;
    clear(table, segment, first, count);
    for (size_t i = first; i < first + count; i++)
        segment->pages[i].granted = false;
    table->reserved_pages -= segment->counted ? count : 0;
    return true;
}

static void park(struct page_table *table, struct page_segment *segment) {
    segment->older = table->parked_newest;
    segment->newer = NULL;
    *(table->parked_newest ? &table->parked_newest->newer : &table->parked_oldest) = segment;
    table->parked_newest = segment;
    table->parked_count++;
}

static void unpark(struct page_table *table, struct page_segment *segment) {
    *(segment->older ? &segment->older->newer : &table->parked_oldest) = segment->newer;
    *(segment->newer ? &segment->newer->older : &table->parked_newest) = segment->older;
    segment->older = segment->newer = NULL;
    table->parked_count--;
}

/* Its last page has gone. */
static void goes(struct page_table *table, struct page_segment *segment) {
    unpark(table, segment);
    segment->newer = table->gone;
    table->gone = segment;
}

/* No memory is there any more. */
static void lose(struct page_table *table, struct page *lead) {
    struct page_segment *segment = lead->segment;
    size_t span = lead->span;
    for (struct page *page = lead; page < lead + span; page++) {
        page->state = PAGE_EMPTY;
        page->back = page->span = page->used = 0;
        page->open_to = 0;
    }
    segment->filled_count -= span;
    if (!segment->filled_count && segment->ended)
        goes(table, segment);
}

void page_table_end(struct page_table *table, struct page_segment *segment) {
    clear(table, segment, 0, segment->page_count);
    segment->ended = true;
    segment->end_tick = table->tick;
    table->reserved_pages -= segment->range ? 0 : segment->page_count;
    park(table, segment);
    if (!segment->filled_count)
        goes(table, segment);
}

struct page_segment *page_table_unpark(struct page_table *table, uint64_t bytes, uint64_t stream,
                                       bool in_order) {
    struct page_segment *segment = table->parked_newest;
    while (segment &&
           (segment->range || segment->bytes != bytes ||
            (!(in_order && segment->stream == stream) && segment->end_tick > table->settled_tick)))
        segment = segment->older;
    if (!segment)
        return NULL;
    unpark(table, segment);
    segment->ended = false;
    segment->stream = stream;
    table->reserved_pages += segment->page_count;
    return segment;
}

void page_table_stream_gone(struct page_table *table, uint64_t stream) {
    for (size_t i = 0; i < table->segment_count; i++)
        if (table->segments[i]->stream == stream)
            table->segments[i]->stream = UINT64_MAX;
}

struct page_segment *page_table_ended(const struct page_table *table) {
    return table->gone;
}

void page_table_claim(struct page *page, size_t span) {
    for (size_t i = 0; i < span; i++) {
        page[i].state = PAGE_WORKING;
        page[i].back = (uint16_t)i;
    }
    page->span = (uint16_t)span;
    page->segment->filled_count += span;
}

void page_table_unclaim(struct page_table *table, struct page *page) {
    lose(table, page);
}

void page_table_put_back(struct page_table *table, struct page *page) {
    page->used = 0;
    for (size_t i = 0; i < page->span; i++) {
        page[i].state = PAGE_MAPPED;
        page->used = (uint16_t)(page->used + in_use(&page[i]));
    }
    if (!page->used)
        list(table, page);
}

void page_table_mapped(struct page_table *table, struct page *page, uint64_t handle) {
    page->handle = handle;
    table->mapped_pages += page->span;
    page_table_put_back(table, page);
}

void page_table_emptied(struct page_table *table, struct page *page) {
    page->handle = 0;
    table->mapped_pages -= page->span;
    lose(table, page);
}

void page_table_take(struct page_table *table, struct page *page) {
    unlist(table, page);
    for (size_t i = 0; i < page->span; i++)
        page[i].state = PAGE_WORKING;
}

bool page_table_pick_one(struct page_table *table, struct page *page) {
    if (!page->idle || page->idle_tick > table->settled_tick || page->opening)
        return false;
    page_table_take(table, page);
    return true;
}

size_t page_table_pick_in(struct page_table *table, struct page_segment *segment, size_t want,
                          struct page **out) {
    size_t count = 0;
    for (size_t i = 0; i < segment->page_count; i++)
        if (count < want && page_table_pick_one(table, &segment->pages[i]))
            out[count++] = &segment->pages[i];
    return count;
}

size_t page_table_pick_parked(struct page_table *table, uint64_t tick, size_t want,
                              struct page **out) {
    struct page_segment *segment = table->parked_oldest;
    return segment && segment->end_tick <= tick ? page_table_pick_in(table, segment, want, out) : 0;
}

struct page_segment *page_table_parked_range(const struct page_table *table) {
    struct page_segment *segment = table->parked_oldest;
    while (segment && !segment->range)
        segment = segment->newer;
    return segment;
}

static bool is_revoked(const struct page *lead) {
    for (const struct page *page = lead; page < lead + lead->span; page++)
        if (page->granted)
            return false;
    return !lead->segment->ended;
}

size_t page_table_pick_revoked(struct page_table *table, uint64_t tick, size_t want,
                               struct page **out) {
    size_t count = 0;
    for (size_t size = 0; size < PAGE_SIZES; size++) {
        struct page *page = table->oldest[size], *newer;
        for (; page && page->idle_tick <= tick && count < want; page = newer) {
            newer = page->newer;
            if (is_revoked(page) && page_table_pick_one(table, page))
                out[count++] = page;
        }
    }
    return count;
}

void page_table_pin_live(struct page_table *table) {
    for (size_t i = 0; i < table->segment_count; i++)
        for (size_t page = 0; page < table->segments[i]->page_count; page++)
            table->segments[i]->pages[page].pinned |= table->segments[i]->pages[page].live > 0;
}
