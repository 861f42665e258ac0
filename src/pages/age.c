/* age.c: giving back what nobody has wanted for a while. Nobody may be held up by it: whoever needs
 * a page that is just being unmapped waits for a few others only. */
#include "pages/internal.h"

/* Pages unmapped at once: in the worst case as many calls of the driver, some 25 us each. */
enum { FEW = 8 };

struct pages_age pages_age(struct pages *pages) {
    lock_take(&pages->lock);
    struct pages_age age = {pages->table.tick, pages->kept_count};
    lock_give(&pages->lock);
    return age;
}

/* Pages worth so many that have been idle since then and with which the GPU has finished. */
static size_t pick(struct pages *pages, uint64_t tick, struct page **list, size_t want) {
    lock_take(&pages->lock);
    size_t count = page_table_pick_old(&pages->table, tick, want, list, FEW);
    pages_picked(pages, list, count);
    lock_give(&pages->lock);
    return count;
}

uint64_t pages_give_back_old(struct pages *pages, uint64_t bytes, struct pages_age age,
                             bool may_wait) {
    struct page *list[FEW];
    size_t want = bytes / PAGE_BYTES, picked;
    pages_settle_later(pages, may_wait);
    lock_take(&pages->lock);
    size_t kept = min_u64(pages->kept_count, age.kept);
    lock_give(&pages->lock);
    size_t given = pages_release(pages, min_u64(kept, want), 0);
    while (given < want && (picked = pick(pages, age.tick, list, want - given)) > 0)
        given += pages_release(pages, pages_unmap(pages, list, picked), 0);
    pages_sweep(pages);
    return given * PAGE_BYTES;
}
