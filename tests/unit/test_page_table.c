/* test_page_table.c: the page table against a model that counts everything anew at each question: a
 * list of blocks and an array of pages, no list of idle ones, no sums. Operations are random, also
 * those that only several threads together can make (a page WORKING while blocks come and go). */
#include "unit.h"

#include "base/base.h"
#include "pages/table.h"

#include <stdlib.h>
#include <string.h>

enum { SEGMENTS = 12, MOST_PAGES = 24, BLOCKS = 300, OPERATIONS = 60000 };

struct model_page {
    bool working, mapped, pinned, granted;
    uint64_t handle;
    uint64_t idle_since; /* of interest while nothing lives in it */
};

struct model_segment {
    bool present, ended, range;
    uint64_t stream, ended_at;
    uint64_t address;
    size_t count;
    struct page_segment *real;
    struct model_page pages[MOST_PAGES];
};

struct model_block {
    bool present;
    struct model_segment *segment;
    uint64_t address, bytes;
};

static struct {
    struct page_table table;
    struct model_segment segments[SEGMENTS];
    struct model_block blocks[BLOCKS];
    uint64_t clock;   /* of the latest free */
    uint64_t settled; /* the clock up to which the GPU has finished */
    uint64_t handles;
    uint64_t seed;
    size_t picked, pinned, ended, revoked, unparked; /* how often the cases came */
} self;

static uint64_t below(uint64_t bound) {
    self.seed = self.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (self.seed >> 33) % bound;
}

/* ---- what the model says ---- */

static bool reaches(const struct model_block *block, const struct model_segment *segment,
                    size_t page) {
    uint64_t start = segment->address + page * PAGE_BYTES;
    return block->present && block->segment == segment && block->address < start + PAGE_BYTES &&
           block->address + block->bytes > start;
}

static size_t live_in(const struct model_segment *segment, size_t page) {
    size_t count = 0;
    for (size_t i = 0; segment->pages[page].granted && i < BLOCKS; i++)
        count += reaches(&self.blocks[i], segment, page);
    return count;
}

static bool is_idle(const struct model_segment *segment, size_t i) {
    const struct model_page *page = &segment->pages[i];
    return segment->present && page->mapped && !page->working && !page->pinned &&
           !live_in(segment, i);
}

static bool may_go(const struct model_segment *segment, size_t i) {
    return is_idle(segment, i) && segment->pages[i].idle_since <= self.settled;
}

struct sums {
    uint64_t reserved, mapped, idle, may_go;
};

static struct sums count_anew(void) {
    struct sums sums = {0};
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++) {
        for (size_t i = 0; s->present && i < s->count; i++) {
            sums.reserved += s->pages[i].granted && !s->ended;
            sums.mapped += s->pages[i].mapped;
            sums.idle += is_idle(s, i);
            sums.may_go += may_go(s, i);
        }
    }
    return sums;
}

/* ---- comparing ---- */

static void compare_page(const struct model_segment *segment, size_t i) {
    const struct model_page *expected = &segment->pages[i];
    const struct page *page = &segment->real->pages[i];
    assert_int_equal(page->live, live_in(segment, i));
    assert_int_equal(page->pinned, expected->pinned);
    assert_int_equal(page->granted, expected->granted);
    assert_int_equal(page->handle, expected->handle);
    assert_int_equal(page->idle, is_idle(segment, i));
    assert_int_equal(page->state, expected->working  ? PAGE_WORKING
                                  : expected->mapped ? PAGE_MAPPED
                                                     : PAGE_EMPTY);
    assert_int_equal(page_address(page), segment->address + i * PAGE_BYTES);
}

static void compare(void) {
    struct sums sums = count_anew();
    assert_true(page_table_is_valid(&self.table));
    assert_int_equal(self.table.reserved_pages, sums.reserved);
    assert_int_equal(self.table.mapped_pages, sums.mapped);
    assert_int_equal(self.table.idle_pages, sums.idle);
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        for (size_t i = 0; s->present && i < s->count; i++)
            compare_page(s, i);
}

/* ---- operations ---- */

static struct model_segment *any_segment(bool present) {
    struct model_segment *segment = &self.segments[below(SEGMENTS)];
    return segment->present == present ? segment : NULL;
}

/* Slots of the address space, wide enough for the largest segment; neighbours may touch. */
static void add(void) {
    struct model_segment *segment = any_segment(false);
    if (!segment)
        return;
    size_t slot = (size_t)(segment - self.segments);
    size_t count = below(3) ? 1 + below(MOST_PAGES) : MOST_PAGES;
    memset(segment, 0, sizeof *segment);
    segment->address = ((uint64_t)7 << 40) + slot * MOST_PAGES * PAGE_BYTES;
    segment->count = count;
    segment->range = below(3) == 0;
    segment->real =
        segment->range
            ? page_table_add_range(&self.table, segment->address, count * PAGE_BYTES, true)
            : page_table_add(&self.table, segment->address, count * PAGE_BYTES, slot % 3);
    segment->stream = slot % 3;
    assert_non_null(segment->real);
    for (size_t i = 0; i < count; i++)
        segment->pages[i].granted = !segment->range;
    segment->present = true;
    /* The same again, and whatever overlaps, is refused. */
    assert_null(page_table_add(&self.table, segment->address, PAGE_BYTES, 0));
    assert_null(page_table_add(&self.table, segment->address - PAGE_BYTES, 2 * PAGE_BYTES, 0));
    assert_null(
        page_table_add(&self.table, segment->address + (count - 1) * PAGE_BYTES, PAGE_BYTES, 0));
}

static void use(void) {
    struct model_segment *segment = any_segment(true);
    struct model_block *block = &self.blocks[below(BLOCKS)];
    if (!segment || segment->ended || block->present)
        return;
    uint64_t offset = below(segment->count * PAGE_BYTES / 512) * 512;
    uint64_t bytes = 512 * (1 + below((segment->count * PAGE_BYTES - offset) / 512));
    *block = (struct model_block){true, segment, segment->address + offset, bytes};
    size_t first = page_table_first(segment->real, block->address);
    size_t count = page_table_span(segment->real, block->address, bytes);
    assert_true(reaches(block, segment, first) && reaches(block, segment, first + count - 1));
    assert_false(first > 0 && reaches(block, segment, first - 1));
    assert_false(first + count < segment->count && reaches(block, segment, first + count));
    page_table_use(&self.table, segment->real, first, count);
    if (below(40))
        return;
    page_table_pin(segment->real, first, count);
    for (size_t i = first; i < first + count; i++)
        segment->pages[i].pinned = segment->pages[i].granted;
    self.pinned++;
}

static void leave(void) {
    struct model_block *block = &self.blocks[below(BLOCKS)];
    if (!block->present)
        return;
    struct model_segment *segment = block->segment;
    self.clock++;
    for (size_t i = 0; i < segment->count; i++)
        if (segment->pages[i].granted && reaches(block, segment, i))
            segment->pages[i].idle_since = self.clock;
    page_table_leave(&self.table, segment->real, page_table_first(segment->real, block->address),
                     page_table_span(segment->real, block->address, block->bytes));
    block->present = false;
}

static bool is_unused(const struct model_segment *segment, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        for (size_t k = 0; k < BLOCKS; k++)
            if (reaches(&self.blocks[k], segment, i))
                return false;
    return true;
}

/* Grants and revokes part of a range in which no block lives. What is pinned there is not any more.
 */
static void grant(void) {
    struct model_segment *segment = any_segment(true);
    if (!segment || !segment->range)
        return;
    size_t first = below(segment->count), count = 1 + below(min_u64(6, segment->count - first));
    bool granted = segment->pages[first].granted, same = true;
    for (size_t i = first; i < first + count; i++)
        same = same && segment->pages[i].granted == granted;
    if (!is_unused(segment, first, count))
        return;
    if (!granted) {
        assert_int_equal(page_table_grant(&self.table, segment->real, first, count), same);
    } else {
        assert_int_equal(page_table_revoke(&self.table, segment->real, first, count), same);
        self.clock += same;
    }
    for (size_t i = first; same && i < first + count; i++) {
        segment->pages[i].granted = !granted;
        segment->pages[i].pinned = false;
        segment->pages[i].idle_since = granted ? self.clock : segment->pages[i].idle_since;
    }
    self.revoked += same && granted;
}

/* What the engine does with an empty page; with a page that it works on: it is done, or it failed.
 */
static void work(void) {
    struct model_segment *segment = any_segment(true);
    if (!segment)
        return;
    size_t i = below(segment->count);
    struct model_page *expected = &segment->pages[i];
    struct page *page = &segment->real->pages[i];
    if (!expected->working && !expected->mapped && !segment->ended && expected->granted) {
        page_table_claim(page);
        expected->working = true;
    } else if (expected->working && !expected->mapped) {
        expected->working = false;
        expected->mapped = true;
        expected->handle = ++self.handles;
        expected->idle_since = self.clock; /* nothing has run in it since then */
        page_table_mapped(&self.table, page, expected->handle);
    } else if (expected->working) {
        expected->working = expected->mapped = false;
        expected->handle = 0;
        page_table_emptied(&self.table, page);
    }
}

static struct model_page *model_of(const struct page *page) {
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        if (s->present && s->real == page->segment)
            return &s->pages[page - page->segment->pages];
    fail();
    return NULL;
}

static uint64_t longest_idle_left(void) {
    uint64_t oldest = UINT64_MAX;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        for (size_t i = 0; s->present && i < s->count; i++)
            if (may_go(s, i) && s->pages[i].idle_since < oldest)
                oldest = s->pages[i].idle_since;
    return oldest;
}

static void pick(void) {
    struct page *out[SEGMENTS * MOST_PAGES];
    size_t want = below(below(2) ? 4 : 80);
    uint64_t possible = count_anew().may_go, latest = 0;
    size_t count = page_table_pick(&self.table, want, out);
    assert_int_equal(count, want < possible ? want : possible);
    for (size_t i = 0; i < count; i++) {
        struct model_page *page = model_of(out[i]);
        assert_true(page->mapped && !page->working && !page->pinned);
        assert_true(page->idle_since <= self.settled && page->idle_since >= latest);
        latest = page->idle_since;
        page->working = true;
    }
    if (count)
        assert_true(longest_idle_left() >= latest);
    self.picked += count;
}

static void pick_one(void) {
    struct model_segment *segment = any_segment(true);
    if (!segment)
        return;
    size_t i = below(segment->count);
    bool possible = may_go(segment, i);
    assert_int_equal(page_table_pick_one(&self.table, &segment->real->pages[i]), possible);
    segment->pages[i].working = segment->pages[i].working || possible;
}

/* The GPU has finished with what was idle some time ago. */
static void settle(void) {
    if (self.clock <= self.settled)
        return;
    self.settled += 1 + below(self.clock - self.settled);
    self.table.settled_tick = self.settled;
}

static void revoke_all(struct model_segment *segment) {
    for (size_t i = 0; i < segment->count; i++) {
        if (!segment->pages[i].granted)
            continue;
        assert_true(page_table_revoke(&self.table, segment->real, i, 1));
        segment->pages[i].granted = segment->pages[i].pinned = false;
        segment->pages[i].idle_since = ++self.clock;
        self.revoked++;
    }
}

/* PyTorch frees a segment only when no block lives there; the table does not count on that. No page
 * is being mapped then. */
static void end(void) {
    struct model_segment *segment = any_segment(true);
    if (!segment || segment->ended || below(4))
        return;
    for (size_t i = 0; i < segment->count; i++)
        if (segment->pages[i].working && !segment->pages[i].mapped)
            return;
    for (size_t i = 0; i < BLOCKS; i++)
        if (self.blocks[i].segment == segment)
            self.blocks[i].present = false;
    if (segment->range) {
        revoke_all(segment);
        return;
    }
    self.clock++;
    for (size_t i = 0; i < segment->count; i++) {
        segment->pages[i].pinned = false;
        segment->pages[i].idle_since = self.clock;
    }
    page_table_end(&self.table, segment->real);
    segment->ended = true;
    segment->ended_at = self.clock;
    self.ended++;
}

static bool has_gone(const struct model_segment *segment) {
    for (size_t i = 0; i < segment->count; i++)
        if (segment->pages[i].mapped || segment->pages[i].working)
            return false;
    return segment->present && segment->ended;
}

/* A range goes when nothing is granted and nothing mapped. */
static void end_range(void) {
    struct model_segment *segment = any_segment(true);
    if (!segment || !segment->range)
        return;
    for (size_t i = 0; i < segment->count; i++) {
        const struct model_page *page = &segment->pages[i];
        if (page->mapped || page->working || page->granted)
            return;
    }
    for (size_t i = 0; i < BLOCKS; i++) /* they lay where nothing was granted */
        if (self.blocks[i].segment == segment)
            self.blocks[i].present = false;
    page_table_remove(&self.table, segment->real);
    segment->present = false;
}

static void sweep(void) {
    size_t expected = 0;
    end_range();
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        expected += has_gone(s);
    struct page_segment *real = page_table_ended(&self.table);
    assert_int_equal(real != NULL, expected > 0);
    for (struct model_segment *s = self.segments; real && s < self.segments + SEGMENTS; s++) {
        if (!s->present || s->real != real)
            continue;
        assert_true(has_gone(s));
        page_table_remove(&self.table, real);
        s->present = false;
        return;
    }
    assert_null(real);
}

static struct model_segment *should_unpark(size_t count, uint64_t stream, bool in_order) {
    struct model_segment *latest = NULL;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++) {
        bool safe = (in_order && s->stream == stream) || s->ended_at <= self.settled;
        if (s->present && s->ended && !has_gone(s) && s->count == count && safe &&
            (!latest || s->ended_at > latest->ended_at))
            latest = s;
    }
    return latest;
}

static void unpark(void) {
    size_t count = below(4) ? MOST_PAGES : 1 + below(MOST_PAGES);
    uint64_t stream = below(3);
    bool in_order = below(2);
    struct model_segment *expected = should_unpark(count, stream, in_order);
    struct page_segment *real =
        page_table_unpark(&self.table, count * PAGE_BYTES, stream, in_order);
    assert_ptr_equal(real, expected ? expected->real : NULL);
    if (!expected)
        return;
    expected->ended = false;
    expected->stream = stream;
    self.unparked++;
}

/* Of the segment that was parked first only. */
static void pick_parked(void) {
    struct page *out[MOST_PAGES];
    struct model_segment *first = NULL;
    uint64_t tick = self.clock - below(self.clock / 2 + 1);
    size_t want = 1 + below(MOST_PAGES), possible = 0;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        if (s->present && s->ended && !has_gone(s) && (!first || s->ended_at < first->ended_at))
            first = s;
    for (size_t i = 0; first && first->ended_at <= tick && i < first->count; i++)
        possible += may_go(first, i);
    size_t count = page_table_pick_parked(&self.table, tick, want, out);
    assert_int_equal(count, min_u64(possible, want));
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(out[i]->segment, first->real);
        model_of(out[i])->working = true;
    }
}

static void find(void) {
    uint64_t address =
        ((uint64_t)7 << 40) + below((SEGMENTS + 1) * MOST_PAGES) * PAGE_BYTES - 1 + below(2);
    struct page_segment *expected = NULL;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        if (s->present && address >= s->address && address < s->address + s->count * PAGE_BYTES)
            expected = s->real;
    assert_ptr_equal(page_table_find(&self.table, address), expected);
}

static void random_operations_agree_with_the_model(void **state) {
    static void (*const operations[])(void) = {add,      use,    use,  leave, leave,
                                               work,     work,   work, work,  pick,
                                               pick_one, settle, find, grant, grant};
    (void)state;
    self.seed = 2026;
    for (size_t i = 0; i < OPERATIONS; i++) {
        operations[below(sizeof operations / sizeof *operations)]();
        if (i % 50 == 0)
            end();
        if (i % 10 == 0)
            sweep();
        if (i % 4 == 0)
            unpark();
        if (i % 200 == 0)
            pick_parked();
        if (i % 7 == 0)
            compare();
    }
    print_message("%zu picked, %zu pinned, %zu ended, %zu revoked, %zu unparked\n", self.picked,
                  self.pinned, self.ended, self.revoked, self.unparked);
    /* All cases came, or the test would say nothing. */
    assert_true(self.picked > 1000 && self.pinned > 50 && self.ended > 50 && self.revoked > 15 &&
                self.unparked > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
