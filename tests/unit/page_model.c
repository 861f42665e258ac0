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
static size_t used_in_extent(const struct model_segment *segment, size_t i) {
    size_t used = 0;
    for (size_t k = i; k < i + segment->pages[i].npages; k++)
        used += segment->pages[k].pinned || live_in(segment, k);
    return used;
}

struct moment idle_since(const struct model_segment *segment, size_t i) {
    struct moment since = {0};
    for (size_t k = i; k < i + segment->pages[i].npages; k++) {
        since.epoch = max_u64(since.epoch, segment->pages[k].idle_since.epoch);
        since.ns = max_u64(since.ns, segment->pages[k].idle_since.ns);
    }
    return since;
}

void idle_since_now(struct model_segment *segment, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        segment->pages[i].idle_since = self.now;
}

static bool is_idle(const struct model_segment *segment, size_t i) {
    const struct model_page *page = &segment->pages[i];
    return segment->present && page->mapped && page->npages && !page->working &&
           !used_in_extent(segment, i);
}

/* What is given up in part is so as a whole. What the owner of all that does not count gave up is
 * retained until anything happens to it. */
enum page_idle list_of(const struct model_segment *segment, size_t i) {
    const struct model_page *page = &segment->pages[i];
    bool attached = !segment->ended;
    for (size_t k = i; k < i + page->npages; k++)
        attached = attached && segment->pages[k].attached;
    if (!is_idle(segment, i))
        return IDLE_NOT;
    bool given_up = page->given_up && page->given_up == idle_since(segment, i).epoch;
    return attached && !given_up ? IDLE_KEPT : IDLE_RETURNED;
}

bool is_fenced(const struct model_segment *segment, size_t i) {
    return idle_since(segment, i).epoch <= self.fenced;
}

static void count_page(const struct model_segment *segment, size_t i, struct sums *sums) {
    bool attached = segment->pages[i].attached && !segment->ended;
    sums->attached += attached;
    sums->reserved += attached && (!segment->range || segment->counted);
    sums->mapped += segment->pages[i].mapped;
    enum page_idle list = list_of(segment, i);
    sums->idle[list] += segment->pages[i].npages;
    sums->oldest_ns[list] = min_u64(sums->oldest_ns[list], idle_since(segment, i).ns);
}

struct sums count_anew(void) {
    struct sums sums = {.oldest_ns = {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        for (size_t i = 0; s->present && i < s->count; i++)
            count_page(s, i, &sums);
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
        assert_int_equal(page->used, used_in_extent(segment, i));
    assert_int_equal(page->attached, expected->attached);
    assert_int_equal(page->handle, expected->npages ? expected->handle : 0);
    assert_int_equal(page->idle, list_of(segment, i));
    if (page->idle != IDLE_NOT) {
        assert_int_equal(page->idle_epoch, idle_since(segment, i).epoch);
        assert_int_equal(page->idle_ns, idle_since(segment, i).ns);
    }
    assert_int_equal(page->state, expected->working  ? PAGE_BUSY
                                  : expected->mapped ? PAGE_MAPPED
                                                     : PAGE_EMPTY);
    assert_int_equal(page_address(page), segment->address + i * PAGE_BYTES);
}

void compare(void) {
    struct sums sums = count_anew();
    assert_true(page_table_is_valid(&self.table));
    assert_int_equal(self.table.attached_pages, sums.attached);
    assert_int_equal(self.table.reserved_pages, sums.reserved);
    assert_int_equal(self.table.mapped_pages, sums.mapped);
    for (enum page_idle list = IDLE_KEPT; list < IDLE_LISTS; list++) {
        assert_int_equal(self.table.idle_pages[list], sums.idle[list]);
        assert_int_equal(page_table_idle_since_ns(&self.table, list), sums.oldest_ns[list]);
    }
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        for (size_t i = 0; s->present && i < s->count; i++)
            compare_page(s, i);
}
