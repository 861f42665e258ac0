/* victim.c: which idle extents are taken; see page_table_victims in page_table.h. Pure, as the
 * table is. */
#include "vm/page_table.h"

/* The extents chosen so far, and the next of each size. */
struct choice {
    uint64_t epoch, idle_since_ns; /* only what has been idle since both */
    bool newest_first;
    const size_t *at_most;
    struct page **out;
    size_t count;
    size_t left; /* pages still wanted */
    struct page *next[EXTENT_SIZES];
    size_t taken[EXTENT_SIZES];
};

static bool may_go(const struct choice *choice, const struct page *page) {
    return !page->opening && page->idle_epoch <= choice->epoch &&
           page->idle_ns <= choice->idle_since_ns;
}

/* The first from the page on that may go; NULL: none. What is newer than one that may not go for
 * its age may not either. */
static struct page *ready(const struct choice *choice, size_t size, struct page *page) {
    if (choice->at_most && choice->taken[size] >= choice->at_most[size])
        return NULL;
    while (page && !may_go(choice, page) && (choice->newest_first || page->opening))
        page = choice->newest_first ? page->older : page->newer;
    return page && may_go(choice, page) ? page : NULL;
}

static void take_next(struct choice *choice, size_t size) {
    struct page *page = choice->next[size];
    choice->out[choice->count++] = page;
    choice->taken[size]++;
    choice->next[size] = ready(choice, size, choice->newest_first ? page->older : page->newer);
}

static bool comes_before(const struct choice *choice, const struct page *a, const struct page *b) {
    return choice->newest_first ? a->idle_epoch > b->idle_epoch : a->idle_epoch < b->idle_epoch;
}

/* The size of the extent whose turn it is, not larger than what is wanted; EXTENT_SIZES: none. */
static size_t next_size(const struct choice *choice) {
    size_t best = EXTENT_SIZES;
    for (size_t size = EXTENT_SIZES; size-- > 0;) {
        const struct page *page = choice->next[size];
        if (page && page->npages <= choice->left &&
            (best == EXTENT_SIZES || comes_before(choice, page, choice->next[best])))
            best = size;
    }
    return best;
}

/* So many of that size stay: those idle for least. */
static void drop(struct choice *choice, size_t size, size_t count) {
    choice->taken[size] -= count;
    for (size_t i = choice->count; count && i-- > 0;) {
        if (choice->out[i]->npages != extent_npages(size))
            continue;
        for (size_t k = i + 1; k < choice->count; k++)
            choice->out[k - 1] = choice->out[k];
        choice->count--;
        count--;
    }
}

/* How many pages more than wanted are chosen if one extent of that size is taken besides, and those
 * that it makes superfluous stay. */
static size_t excess_after(struct choice *choice, size_t size, bool drops) {
    size_t excess = extent_npages(size) - choice->left;
    for (size_t i = EXTENT_SIZES; i-- > 0;) {
        size_t count = min_u64(choice->taken[i], excess / extent_npages(i));
        if (drops)
            drop(choice, i, count);
        excess -= count * extent_npages(i);
    }
    return excess;
}

/* Nothing that is left is small enough: one more, and what that makes superfluous stays. It is the
 * one with which least is too much. 5 pages wanted, one extent of 4 chosen, the rest are of 8: one
 * of 8 goes, and the 4 stay. */
static void exceed(struct choice *choice) {
    size_t best = EXTENT_SIZES;
    for (size_t size = 0; size < EXTENT_SIZES; size++)
        if (choice->next[size] && (best == EXTENT_SIZES || excess_after(choice, size, false) <
                                                               excess_after(choice, best, false)))
            best = size;
    if (best == EXTENT_SIZES)
        return;
    excess_after(choice, best, true);
    take_next(choice, best);
}

/* The extent, and those behind it as long as they may go, too: one call unmaps them. */
static void take_row(struct page_table *table, struct choice *choice, struct page *page,
                     size_t room) {
    const struct page *end = page->segment->pages + page->segment->page_count;
    enum page_idle list = page->idle;
    while (choice->count < room && page < end && page->idle == list && may_go(choice, page)) {
        size_t npages = page->npages;
        choice->out[choice->count++] = page;
        page_table_take_victim(table, page);
        page += npages;
    }
}

static size_t take_rows(struct page_table *table, enum page_idle list, struct choice *choice,
                        size_t room) {
    for (size_t size = EXTENT_SIZES; size-- > 0;) {
        struct page *page;
        while (choice->count < room && (page = ready(choice, size, table->idle[list][size].oldest)))
            take_row(table, choice, page, room);
    }
    return choice->count;
}

size_t page_table_victims(struct page_table *table, const struct victims *victims,
                          struct page **out, size_t room) {
    struct choice choice = {.epoch = table->fenced_epoch,
                            .idle_since_ns = victims->idle_since_ns,
                            .newest_first = victims->newest_first,
                            .at_most = victims->at_most,
                            .out = out,
                            .left = victims->want};
    size_t size;
    if (victims->want == SIZE_MAX && !victims->at_most) {
        choice.newest_first = false;
        return take_rows(table, victims->list, &choice, room);
    }
    for (size_t i = 0; i < EXTENT_SIZES; i++) {
        const struct page_list *list = &table->idle[victims->list][i];
        choice.next[i] = ready(&choice, i, choice.newest_first ? list->newest : list->oldest);
    }
    while (choice.left && choice.count < room && (size = next_size(&choice)) < EXTENT_SIZES) {
        choice.left -= extent_npages(size);
        take_next(&choice, size);
    }
    if (choice.left && choice.count < room)
        exceed(&choice);
    for (size_t i = 0; i < choice.count; i++)
        page_table_take_victim(table, out[i]);
    return choice.count;
}

bool page_table_try_victim(struct page_table *table, struct page *page) {
    if (page->idle == IDLE_NOT || page->idle_epoch > table->fenced_epoch || page->opening)
        return false;
    page_table_take_victim(table, page);
    return true;
}

/* Lists are in the order in which their extents became idle. */
uint64_t page_table_idle_since_ns(const struct page_table *table, enum page_idle list) {
    uint64_t since_ns = UINT64_MAX;
    for (size_t size = 0; size < EXTENT_SIZES; size++)
        if (table->idle[list][size].oldest)
            since_ns = min_u64(since_ns, table->idle[list][size].oldest->idle_ns);
    return since_ns;
}
