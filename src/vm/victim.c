/* victim.c: which idle pages are taken; see page_table_pick in page_table.h. Pure, as the table is. */
#include "vm/page_table.h"

/* The pieces chosen so far, and the next of each size, longest idle first. */
struct choice {
    uint64_t tick; /* only what has been idle since then */
    struct page **out;
    size_t count;
    size_t left; /* pages still wanted */
    struct page *next[PAGE_SIZES];
};

/* The first from the page on that may go; NULL: none. */
static struct page *ready(uint64_t tick, struct page *page) {
    while (page && page->opening)
        page = page->newer;
    return page && page->idle_tick <= tick ? page : NULL;
}

static void take(struct choice *choice, size_t size) {
    struct page *page = choice->next[size];
    choice->out[choice->count++] = page;
    choice->next[size] = ready(choice->tick, page->newer);
}

/* The size of the piece idle for longest that is not larger than what is wanted; PAGE_SIZES: none.
 */
static size_t longest_idle(const struct choice *choice) {
    size_t best = PAGE_SIZES;
    for (size_t size = PAGE_SIZES; size-- > 0;) {
        const struct page *page = choice->next[size];
        if (page && page->span <= choice->left &&
            (best == PAGE_SIZES || page->idle_tick < choice->next[best]->idle_tick))
            best = size;
    }
    return best;
}

/* One of that size that is not needed any more stays: the one idle for least. */
static bool drop(struct choice *choice, size_t span) {
    for (size_t i = choice->count; i-- > 0;) {
        if (choice->out[i]->span != span)
            continue;
        for (size_t k = i + 1; k < choice->count; k++)
            choice->out[k - 1] = choice->out[k];
        choice->count--;
        return true;
    }
    return false;
}

/* Nothing that is left is small enough: one more, the smallest, and what that makes superfluous
 * stays. Because each size is a part of the next larger, no choice that suffices takes less. */
static void exceed(struct choice *choice) {
    size_t size = 0;
    while (size < PAGE_SIZES && !choice->next[size])
        size++;
    if (size == PAGE_SIZES)
        return;
    size_t excess = choice->next[size]->span - choice->left;
    take(choice, size);
    while (size-- > 0)
        while (page_spans[size] <= excess && drop(choice, page_spans[size]))
            excess -= page_spans[size];
}

size_t page_table_pick_old(struct page_table *table, uint64_t tick, size_t want, struct page **out,
                           size_t room) {
    uint64_t last = tick < table->settled_tick ? tick : table->settled_tick;
    struct choice choice = {.tick = last, .out = out, .left = want};
    size_t size;
    for (size_t i = 0; i < PAGE_SIZES; i++)
        choice.next[i] = ready(last, table->oldest[i]);
    while (choice.left && choice.count < room && (size = longest_idle(&choice)) < PAGE_SIZES) {
        choice.left -= page_spans[size];
        take(&choice, size);
    }
    if (choice.left && choice.count < room)
        exceed(&choice);
    for (size_t i = 0; i < choice.count; i++)
        page_table_take(table, out[i]);
    return choice.count;
}

size_t page_table_pick(struct page_table *table, size_t want, struct page **out, size_t room) {
    return page_table_pick_old(table, UINT64_MAX, want, out, room);
}
