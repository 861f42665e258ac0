/* test_page_table.c: the page table against the model of page_model.c. Operations are random, also
 * those that only several threads together can make (a page BUSY while blocks come and go). */
#include "page_model.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { OPERATIONS = 150000 };

static uint64_t below(uint64_t bound) {
    self.seed = self.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (self.seed >> 33) % bound;
}

/* ---- operations ---- */

static struct model_segment *any_segment(bool present) {
    struct model_segment *segment = &self.segments[below(SEGMENTS)];
    return segment->present == present ? segment : NULL;
}

/* One that has not ended. */
static struct model_segment *any_range(void) {
    size_t first = below(SEGMENTS);
    for (size_t i = 0; i < SEGMENTS; i++) {
        struct model_segment *segment = &self.segments[(first + i) % SEGMENTS];
        if (segment->present && segment->range && !segment->ended)
            return segment;
    }
    return NULL;
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
    segment->counted = below(2);
    segment->real = segment->range ? page_table_add_range(&self.table, segment->address,
                                                          count * PAGE_BYTES, segment->counted)
                                   : page_table_add(&self.table, segment->address,
                                                    count * PAGE_BYTES, slot % 3);
    segment->stream = slot % 3;
    assert_non_null(segment->real);
    bool attached = !segment->range || below(2);
    if (segment->range && attached) {
        assert_true(page_table_attach(&self.table, segment->real, 0, count));
        self.now.epoch++;
    }
    for (size_t i = 0; i < count; i++)
        segment->pages[i].attached = attached;
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
    size_t count = page_table_npages(segment->real, block->address, bytes);
    assert_true(reaches(block, segment, first) && reaches(block, segment, first + count - 1));
    assert_false(first > 0 && reaches(block, segment, first - 1));
    assert_false(first + count < segment->count && reaches(block, segment, first + count));
    page_table_mark_live(&self.table, segment->real, first, count);
    if (below(40))
        return;
    page_table_pin(segment->real, first, count);
    for (size_t i = first; i < first + count; i++)
        segment->pages[i].pinned = segment->pages[i].attached;
    self.pinned++;
}

static void leave(void) {
    struct model_block *block = &self.blocks[below(BLOCKS)];
    if (!block->present)
        return;
    struct model_segment *segment = block->segment;
    self.now.epoch++;
    for (size_t i = 0; i < segment->count; i++)
        if (segment->pages[i].attached && reaches(block, segment, i))
            segment->pages[i].idle_since = self.now;
    page_table_mark_idle(&self.table, segment->real,
                         page_table_first(segment->real, block->address),
                         page_table_npages(segment->real, block->address, block->bytes));
    block->present = false;
}

static bool is_unused(const struct model_segment *segment, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        for (size_t k = 0; k < BLOCKS; k++)
            if (reaches(&self.blocks[k], segment, i))
                return false;
    return true;
}

/* Attaches and detaches part of a range in which no block lives. What is pinned there is not any
 * more. */
static void attach(void) {
    struct model_segment *segment = any_range();
    if (!segment)
        return;
    size_t first = below(segment->count), count = 1 + below(min_u64(6, segment->count - first));
    bool attached = segment->pages[first].attached, same = true;
    for (size_t i = first; i < first + count; i++)
        same = same && segment->pages[i].attached == attached;
    if (!is_unused(segment, first, count))
        return;
    bool cut = attached && (segment->pages[first].back ||
                            (first + count < segment->count && segment->pages[first + count].back));
    bool done = attached ? page_table_detach(&self.table, segment->real, first, count)
                         : page_table_attach(&self.table, segment->real, first, count);
    assert_int_equal(done, same);
    if (!done)
        return;
    self.now.epoch++;
    idle_since_now(segment, first, count);
    for (size_t i = first; i < first + count; i++) {
        segment->pages[i].attached = !attached;
        segment->pages[i].pinned = false;
        self.attached_again += !attached && segment->pages[i].mapped;
    }
    self.detached += attached;
    self.cut += cut;
}

static void set_extent(struct model_page *page, size_t npages, bool working, bool mapped) {
    for (size_t i = 0; i < npages; i++) {
        page[i].working = working;
        page[i].mapped = mapped;
        page[i].back = working || mapped ? i : 0;
        page[i].given_up = 0;
    }
    page->npages = working || mapped ? npages : 0;
}

/* So many empty pages in one extent, of which the first may hold blocks. */
static size_t empty_from(const struct model_segment *segment, size_t first) {
    size_t room = 0, sizes = 0;
    while (first + room < segment->count && segment->pages[first].attached &&
           !segment->pages[first + room].mapped && !segment->pages[first + room].working)
        room++;
    while (sizes < EXTENT_SIZES && extent_npages(sizes) <= room)
        sizes++;
    return sizes ? extent_npages(below(4) ? below(sizes) : 0) : 0;
}

/* What the engine does with empty pages; with those that it works on: it is done, or it failed. */
static void work(void) {
    struct model_segment *segment = any_segment(true);
    if (!segment)
        return;
    size_t i = below(2) ? below(segment->count) : below(segment->count) / 4 * 4;
    i -= segment->pages[i].back;
    struct model_page *expected = &segment->pages[i];
    struct page *page = &segment->real->pages[i];
    size_t npages = expected->npages ? expected->npages : empty_from(segment, i);
    if (!expected->working && !expected->mapped && !segment->ended && npages) {
        page_table_claim(page, npages);
        set_extent(expected, npages, true, false);
    } else if (expected->working && !expected->mapped && !below(4)) {
        page_table_unclaim(&self.table, page);
        set_extent(expected, npages, false, false);
    } else if (expected->working && !expected->mapped) {
        set_extent(expected, npages, false, true);
        expected->handle = ++self.handles;
        idle_since_now(segment, i, npages); /* nothing has run in it since then */
        page_table_mapped(&self.table, page, expected->handle);
    } else if (expected->working && !below(4)) {
        set_extent(expected, npages, false, true);
        idle_since_now(segment, i, npages);
        page_table_put_back(&self.table, page);
    } else if (expected->working) {
        set_extent(expected, npages, false, false);
        expected->handle = 0;
        page_table_unmapped(&self.table, page);
    }
}

static struct model_segment *segment_of(const struct page *page) {
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        if (s->present && s->real == page->segment)
            return s;
    fail();
    return NULL;
}

static struct model_page *model_of(const struct page *page) {
    return &segment_of(page)->pages[page - page->segment->pages];
}

/* ---- which extents are taken ---- */

static bool may_go(const struct model_segment *segment, size_t i, const struct victims *victims) {
    return list_of(segment, i) == victims->list && is_fenced(segment, i) &&
           idle_since(segment, i).ns <= victims->idle_since_ns;
}

/* Those that may go. */
struct extents {
    uint64_t pages;
    uint64_t oldest[EXTENT_SIZES]; /* since when the one is idle that is so for longest */
    uint64_t newest[EXTENT_SIZES]; /* and the one that is so for least long; 0: none is */
    uint64_t too_young;            /* pages that have not been idle for long enough */
};

static struct extents extents_that_may_go(const struct victims *victims) {
    struct victims ever = {.list = victims->list, .idle_since_ns = UINT64_MAX};
    struct extents extents = {0};
    for (size_t size = 0; size < EXTENT_SIZES; size++)
        extents.oldest[size] = UINT64_MAX;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        for (size_t i = 0; s->present && i < s->count; i++) {
            size_t size = extent_size_index(s->pages[i].npages);
            extents.too_young += may_go(s, i, &ever) && !may_go(s, i, victims);
            if (!may_go(s, i, victims))
                continue;
            extents.pages += s->pages[i].npages;
            extents.oldest[size] = min_u64(extents.oldest[size], idle_since(s, i).epoch);
            extents.newest[size] = max_u64(extents.newest[size], idle_since(s, i).epoch);
        }
    return extents;
}

static struct victims any_victims(void) {
    uint64_t young_ns = below(2) ? 0 : below(1 + min_u64(self.now.ns, 400));
    return (struct victims){
        .list = below(2) ? IDLE_KEPT : IDLE_RETURNED,
        .want = below(below(2) ? 4 : 80),
        .idle_since_ns = young_ns ? self.now.ns - young_ns : UINT64_MAX,
        .newest_first = below(2),
    };
}

static void pick(void) {
    struct page *out[SEGMENTS * MOST_PAGES];
    struct victims victims = any_victims();
    struct extents before = extents_that_may_go(&victims);
    size_t count = page_table_victims(&self.table, &victims, out, SEGMENTS * MOST_PAGES);
    uint64_t latest[EXTENT_SIZES] = {0}, first_of[EXTENT_SIZES], total = 0, smallest = 0;
    memset(first_of, 0xff, sizeof first_of);
    for (size_t i = 0; i < count; i++) {
        struct model_page *page = model_of(out[i]);
        struct model_segment *segment = segment_of(out[i]);
        size_t first = (size_t)(page - segment->pages), size = extent_size_index(page->npages);
        assert_true(may_go(segment, first, &victims));
        latest[size] = max_u64(latest[size], idle_since(segment, first).epoch);
        first_of[size] = min_u64(first_of[size], idle_since(segment, first).epoch);
        total += page->npages;
        smallest = smallest ? min_u64(smallest, page->npages) : page->npages;
        self.large += page->npages > 1;
        set_extent(page, page->npages, true, true);
    }
    /* All there is, or what suffices, and would not without any of them. */
    assert_true(total == before.pages || total >= victims.want);
    assert_true(total < victims.want + smallest || !total);
    struct extents left = extents_that_may_go(&victims);
    for (size_t size = 0; size < EXTENT_SIZES; size++)
        assert_true(!latest[size] || (victims.newest_first ? left.newest[size] <= first_of[size]
                                                           : left.oldest[size] >= latest[size]));
    self.picked[victims.list] += count;
    self.not_old_enough += before.too_young > 0;
}

static void pick_one(void) {
    struct model_segment *segment = any_segment(true);
    if (!segment)
        return;
    size_t i = below(segment->count);
    bool possible = list_of(segment, i) != IDLE_NOT && is_fenced(segment, i);
    assert_int_equal(page_table_try_victim(&self.table, &segment->real->pages[i]), possible);
    if (possible)
        set_extent(&segment->pages[i], segment->pages[i].npages, true, true);
}

/* The GPU has finished with what was idle some time ago. */
static void fence(void) {
    if (self.now.epoch <= self.fenced)
        return;
    self.fenced += 1 + below(self.now.epoch - self.fenced);
    self.table.fenced_epoch = self.fenced;
}

/* ---- what PyTorch gives up ---- */

/* The owner of all that does not count. */
static void give_up(void) {
    page_table_return_uncounted(&self.table);
    self.now.epoch++;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        for (size_t i = 0; s->present && s->range && !s->counted && i < s->count; i++) {
            if (list_of(s, i) != IDLE_KEPT)
                continue;
            s->pages[i].idle_since = self.now;
            s->pages[i].given_up = self.now.epoch;
            self.given_up++;
        }
}

/* Part by part, whatever lies across their ends. */
static void detach_all(struct model_segment *segment) {
    for (size_t i = 0, count = 1; i < segment->count; i += count) {
        count = 1;
        if (!segment->pages[i].attached)
            continue;
        size_t most = 1 + below(6);
        while (count < most && i + count < segment->count && segment->pages[i + count].attached)
            count++;
        self.cut += segment->pages[i].back > 0;
        assert_true(page_table_detach(&self.table, segment->real, i, count));
        self.now.epoch++;
        idle_since_now(segment, i, count);
        for (size_t k = i; k < i + count; k++)
            segment->pages[k].attached = segment->pages[k].pinned = false;
        self.detached++;
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
    if (segment->range)
        detach_all(segment);
    if (segment->range && below(4))
        return;
    self.now.epoch++;
    idle_since_now(segment, 0, segment->count);
    for (size_t i = 0; i < segment->count; i++)
        segment->pages[i].pinned = false;
    page_table_end(&self.table, segment->real);
    segment->ended = true;
    segment->ended_at = self.now.epoch;
    self.ended++;
}

static bool has_gone(const struct model_segment *segment) {
    for (size_t i = 0; i < segment->count; i++)
        if (segment->pages[i].mapped || segment->pages[i].working)
            return false;
    return segment->present && segment->ended;
}

static void sweep(void) {
    size_t expected = 0;
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

static struct model_segment *should_revive(size_t count, uint64_t stream, bool in_order) {
    struct model_segment *latest = NULL;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++) {
        bool safe = (in_order && s->stream == stream) || s->ended_at <= self.fenced;
        if (s->present && s->ended && !s->range && !has_gone(s) && s->count == count && safe &&
            (!latest || s->ended_at > latest->ended_at))
            latest = s;
    }
    return latest;
}

static void revive(void) {
    size_t count = below(4) ? MOST_PAGES : 1 + below(MOST_PAGES);
    uint64_t stream = below(3);
    bool in_order = below(2);
    struct model_segment *expected = should_revive(count, stream, in_order);
    struct page_segment *real = page_table_revive(
        &self.table, &(struct revival){count * PAGE_BYTES, stream, false, in_order});
    assert_ptr_equal(real, expected ? expected->real : NULL);
    if (!expected)
        return;
    expected->ended = false;
    expected->stream = stream;
    self.now.epoch++;
    idle_since_now(expected, 0, expected->count);
    self.revived++;
}

static void find(void) {
    uint64_t address =
        ((uint64_t)7 << 40) + below((SEGMENTS + 1) * MOST_PAGES) * PAGE_BYTES - 1 + below(2);
    struct page_segment *expected = NULL;
    for (struct model_segment *s = self.segments; s < self.segments + SEGMENTS; s++)
        if (s->present && address >= s->address && address < s->address + s->count * PAGE_BYTES)
            expected = s->real;
    assert_ptr_equal(page_table_lookup(&self.table, address), expected);
}

/* The clock goes on, but not with every operation. */
static void time_passes(void) {
    self.now.ns += below(4) ? 0 : below(20);
    self.table.now_ns = self.now.ns;
}

static void random_operations_agree_with_the_model(void **state) {
    static void (*const operations[])(void) = {add,   use,  use,    leave, leave, work,
                                               work,  work, work,   pick,  pick,  pick_one,
                                               fence, find, attach, attach};
    (void)state;
    self.seed = unit_seed(2026);
    for (size_t i = 0; i < OPERATIONS; i++) {
        time_passes();
        operations[below(sizeof operations / sizeof *operations)]();
        if (i % 50 == 0) {
            end();
            fence();
        }
        if (i % 10 == 0)
            sweep();
        if (i % 4 == 0)
            revive();
        if (i % 30 == 0)
            give_up();
        if (i % 7 == 0)
            compare();
    }
    print_message("%zu and %zu picked (%zu large), %zu pinned, %zu ended, %zu detached (%zu cut), "
                  "%zu attached again, %zu given up, %zu too young, %zu revived\n",
                  self.picked[IDLE_KEPT], self.picked[IDLE_RETURNED], self.large, self.pinned,
                  self.ended, self.detached, self.cut, self.attached_again, self.given_up,
                  self.not_old_enough, self.revived);
    /* All cases came, or the test would say nothing; with other seeds one of them may not. */
    assert_true(getenv("SEED") ||
                (self.picked[IDLE_KEPT] && self.picked[IDLE_RETURNED] && self.large &&
                 self.pinned && self.ended && self.detached && self.cut && self.attached_again &&
                 self.given_up && self.not_old_enough && self.revived));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
