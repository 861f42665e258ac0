/* page_model.c: see page_model.h. */
#include "page_model.h"

#include "unit.h"

struct page_model self;

bool reaches(const struct model_block *block, const struct model_segment *segment, size_t page) {
    uint64_t start = segment->address + page * PAGE_BYTES;
    return block->present && block->segment == segment && block->address < start + PAGE_BYTES &&
           block->address + block->bytes > start;
}

static size_t live_in(const struct model_segment *segment, size_t page) {
    size_t count = 0;
    for (size_t i = 0; segment->pages[page].attached && i < BLOCKS; i++)
        count += reaches(&self.blocks[i], segment, page);
    return count;
}

/* Pages of an extent of memory that are live or pinned, asked of its first page. */
static size_t used_in_piece(const struct model_segment *segment, size_t i) {
    size_t used = 0;
    for (size_t k = i; k < i + segment->pages[i].npages; k++)
        used += segment->pages[k].pinned || live_in(segment, k);
    return used;
}

uint64_t idle_since(const struct model_segment *segment, size_t i) {
    uint64_t since = 0;
    for (size_t k = i; k < i + segment->pages[i].npages; k++)
        since = max_u64(since, segment->pages[k].idle_since);
    return since;
}

static bool is_idle(const struct model_segment *segment, size_t i) {
    const struct model_page *page = &segment->pages[i];
    return segment->present && page->mapped && page->npages && !page->working &&
           !used_in_piece(segment, i);
}

bool may_go(const struct model_segment *segment, size_t i) {
    return is_idle(segment, i) && idle_since(segment, i) <= self.fenced;
}

struct sums count_anew(void) {
    struct sums sums = {0};
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++) {
        for (size_t i = 0; s->present && i < s->count; i++) {
            sums.reserved += s->pages[i].attached && !s->ended;
            sums.mapped += s->pages[i].mapped;
            sums.idle += is_idle(s, i) ? s->pages[i].npages : 0;
            sums.may_go += may_go(s, i) ? s->pages[i].npages : 0;
            if (may_go(s, i))
                sums.extents[extent_size_index(s->pages[i].npages)]++;
        }
    }
    return sums;
}

static void compare_page(const struct model_segment *segment, size_t i) {
    const struct model_page *expected = &segment->pages[i];
    const struct page *page = &segment->real->pages[i];
    bool leads = expected->mapped && !expected->working && expected->npages;
    assert_int_equal(page->back, expected->back);
    assert_int_equal(page->npages, expected->npages);
    assert_int_equal(page->live, live_in(segment, i));
    assert_int_equal(page->pinned, expected->pinned);
    if (leads)
        assert_int_equal(page->used, used_in_piece(segment, i));
    assert_int_equal(page->attached, expected->attached);
    assert_int_equal(page->handle, expected->npages ? expected->handle : 0);
    assert_int_equal(page->idle, is_idle(segment, i));
    assert_int_equal(page->state, expected->working  ? PAGE_BUSY
                                  : expected->mapped ? PAGE_MAPPED
                                                     : PAGE_EMPTY);
    assert_int_equal(page_address(page), segment->address + i * PAGE_BYTES);
}

void compare(void) {
    struct sums sums = count_anew();
    assert_true(page_table_is_valid(&self.table));
    assert_int_equal(self.table.reserved_pages, sums.reserved);
    assert_int_equal(self.table.mapped_pages, sums.mapped);
    assert_int_equal(self.table.idle_pages, sums.idle);
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        for (size_t i = 0; s->present && i < s->count; i++)
            compare_page(s, i);
}
