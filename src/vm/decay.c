/* decay.c: giving back what nobody has wanted for a while. Nobody may be held up by it: whoever needs
 * a page that is just being unmapped waits for a few others only. */
#include "vm/vm_internal.h"

/* Pieces unmapped at once: in the worst case as many calls of the driver, some 25 us each. Where
 * time is limited, fewer at first, and then as many as will end in time. */
enum { FEW = 8, FIRST = 2 };

struct pages_age pages_age(struct pages *pages) {
    lock_take(&pages->lock);
    struct pages_age age = {pages->table.tick, pages->kept_count};
    lock_give(&pages->lock);
    return age;
}

/* One batch after another, each of so many pieces; end_ns 0: as long as it takes. */
struct batches {
    uint64_t begun_ns, end_ns;
    size_t pieces;
};

static struct batches batches_in(uint64_t budget_ns) {
    uint64_t now = budget_ns ? clock_ns() : 0;
    return (struct batches){now, now + budget_ns, budget_ns ? FIRST : FEW};
}

/* Whether there is time for another one like the latest; it is larger if there is time for that. */
static bool next_batch(struct batches *batches) {
    if (!batches->end_ns)
        return true;
    uint64_t now = clock_ns(), took_ns = now - batches->begun_ns;
    uint64_t left_ns = minus_u64(batches->end_ns, now);
    batches->begun_ns = now;
    if (2 * took_ns <= left_ns && 2 * batches->pieces <= BATCH)
        batches->pieces *= 2;
    return took_ns < left_ns;
}

size_t pages_unmap_old(struct pages *pages, uint64_t tick, size_t want, size_t pieces) {
    struct page *list[BATCH];
    lock_take(&pages->lock);
    size_t count = page_table_pick_old(&pages->table, tick, want, list, pieces);
    pages_picked(pages, list, count);
    lock_give(&pages->lock);
    return pages_unmap(pages, list, count);
}

uint64_t pages_give_back_old(struct pages *pages, uint64_t bytes, struct pages_age age,
                             uint64_t budget_ns) {
    size_t want = bytes / PAGE_BYTES, given = 0, batch;
    pages_settle_later(pages, !budget_ns);
    lock_take(&pages->lock);
    size_t kept = min_u64(pages->kept_count, age.kept);
    lock_give(&pages->lock);
    struct batches batches = batches_in(budget_ns);
    do {
        size_t next = min_u64(want - given, batches.pieces);
        batch = given < kept ? min_u64(next, kept - given)
                             : pages_unmap_old(pages, age.tick, want - given, batches.pieces);
        batch = pages_release(pages, batch, 0);
        given += batch;
    } while (batch && given < want && next_batch(&batches));
    pages_sweep(pages);
    return given * PAGE_BYTES;
}
