/* decommit.c: idle pages lose their memory, and what is kept goes back to the driver. It must touch
 * only pages that it has picked from the table, and wait for no other thread. */
#include "vm/vm_internal.h"

/* By address: what lies side by side is unmapped by one call. */
static void sort(struct page **list, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct page *page = list[i];
        size_t k = i;
        for (; k > 0 && page_address(list[k - 1]) > page_address(page); k--)
            list[k] = list[k - 1];
        list[k] = page;
    }
}

/* How many of the pieces from i on follow each other without a gap. */
static size_t run_length(struct page *const *list, size_t i, size_t count) {
    size_t n = 1;
    while (i + n < count && list[i + n] == list[i + n - 1] + list[i + n - 1]->span &&
           list[i]->segment == list[i + n]->segment)
        n++;
    return n;
}

static size_t pages_in(struct page *const *list, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += list[i]->span;
    return sum;
}

/* The lock is held. */
static void conclude(struct pages *pages, struct page **list, size_t count, bool unmapped) {
    for (size_t i = 0; i < count; i++) {
        uint64_t handle = list[i]->handle;
        size_t span = list[i]->span;
        pages->moving -= span;
        if (!unmapped) {
            page_table_put_back(&pages->table, list[i]);
            continue;
        }
        page_table_emptied(&pages->table, list[i]);
        pages_keep(pages, handle, span);
        pages->figures.unmaps += span;
        pages->moved++;
    }
}

size_t pages_unmap(struct pages *pages, struct page **list, size_t count) {
    size_t done = 0;
    sort(list, count);
    for (size_t i = 0; i < count;) {
        size_t n = run_length(list, i, count), in_run = pages_in(list + i, n);
        bool unmapped =
            REAL(cuMemUnmap)(page_address(list[i]), in_run * PAGE_BYTES) == CUDA_SUCCESS;
        pages_called(pages);
        lock_take(&pages->lock);
        conclude(pages, list + i, n, unmapped);
        pages_changed(pages);
        lock_give(&pages->lock);
        done += unmapped ? in_run : 0;
        i += n;
    }
    pages_spill_return(pages);
    return done;
}

void pages_picked(struct pages *pages, struct page *const *list, size_t count) {
    pages->moving += pages_in(list, count);
}

size_t pages_purge(struct pages *pages, size_t want) {
    struct page *list[BATCH];
    size_t done = 0;
    pages_spill_recede(pages);
    while (done < want) {
        lock_take(&pages->lock);
        size_t count = page_table_pick(&pages->table, want - done, list, BATCH);
        pages_picked(pages, list, count);
        lock_give(&pages->lock);
        size_t unmapped = count ? pages_unmap(pages, list, count) : 0;
        if (!unmapped)
            break;
        done += unmapped;
    }
    return done;
}

size_t pages_purge_settled(struct pages *pages, size_t want) {
    size_t done = pages_purge(pages, want);
    if (done < want) {
        pages_settle_later(pages, false);
        done += pages_purge(pages, want - done);
    }
    return done;
}

/* Where nothing is idle there is nothing to wait for. */
static bool any_idle(struct pages *pages) {
    lock_take(&pages->lock);
    bool any = pages->table.idle_pages > 0;
    lock_give(&pages->lock);
    return any;
}

size_t pages_purge_for_block(struct pages *pages, size_t want) {
    size_t done = pages_purge_settled(pages, want);
    if (done < want && any_idle(pages) && pages_settle_now(pages))
        done += pages_purge(pages, want - done);
    return done;
}

/* --- giving back --- */

/* Two looks that far apart, and what was parked or revoked at the first has been for long at the
 * second. */
static bool parked_for_long(struct pages *pages, uint64_t now_ns, uint64_t *tick) {
    struct patience *patience = &pages->patience;
    lock_take(&pages->lock);
    bool long_enough = now_ns - patience->parked_ns > pages->plan.park_ns;
    *tick = patience->parked_tick;
    if (long_enough) {
        patience->parked_ns = now_ns;
        patience->parked_tick = pages->table.tick;
    }
    bool any = pages->table.idle_pages > 0;
    lock_give(&pages->lock);
    return long_enough && any;
}

/* So many kept pages have not been wanted for too long: as many as there were at least at all times
 * since the last look that counted. */
static size_t kept_too_long(struct pages *pages, uint64_t now_ns) {
    struct patience *patience = &pages->patience;
    size_t unwanted = 0;
    lock_take(&pages->lock);
    if (now_ns - patience->kept_ns > pages->plan.keep_ns) {
        unwanted = min_u64(pages->kept_least, pages->kept_count);
        pages->kept_least = pages->kept_count - unwanted;
        patience->kept_ns = now_ns;
    }
    lock_give(&pages->lock);
    return unwanted;
}

/* For so long after memory was scarce there are no large pieces. */
#define SCARCE_NS (10 * SECOND_NS)

static void no_longer_scarce(struct pages *pages, uint64_t now_ns) {
    struct patience *patience = &pages->patience;
    lock_take(&pages->lock);
    if (pages->scarce && !patience->scarce_ns)
        patience->scarce_ns = now_ns;
    if (pages->scarce && now_ns - patience->scarce_ns > SCARCE_NS) {
        pages->scarce = false;
        patience->scarce_ns = 0;
    }
    lock_give(&pages->lock);
}

void pages_trim(struct pages *pages) {
    lock_take(&pages->lock);
    pages->patience.trimmed_tick = pages->table.tick;
    lock_give(&pages->lock);
}

/* What was idle when it was to go, and at that tick, and has been ever since. */
static void purge_trimmed(struct pages *pages, uint64_t tick) {
    lock_take(&pages->lock);
    uint64_t since = min_u64(tick, pages->patience.trimmed_tick);
    lock_give(&pages->lock);
    while (pages_unmap_old(pages, since, SIZE_MAX, BATCH) > 0)
        continue;
}

uint64_t pages_expire(struct pages *pages, uint64_t now_ns) {
    uint64_t tick;
    no_longer_scarce(pages, now_ns);
    size_t released = pages_release(pages, kept_too_long(pages, now_ns), 0);
    if (parked_for_long(pages, now_ns, &tick)) {
        pages_settle_later(pages, true);
        pages_purge_parked(pages, tick, 0);
        pages_purge_revoked(pages, tick);
        purge_trimmed(pages, tick);
    }
    return released * PAGE_BYTES;
}

static uint64_t give_back(struct pages *pages, uint64_t bytes) {
    size_t want = bytes / PAGE_BYTES;
    lock_take(&pages->lock);
    size_t kept = pages->kept_count;
    lock_give(&pages->lock);
    size_t released = pages_release(pages, min_u64(kept, want), 0);
    while (released < want && pages_purge(pages, min_u64(want - released, BATCH)))
        released += pages_release(pages, min_u64(want - released, BATCH), 0);
    pages_sweep(pages);
    return released * PAGE_BYTES;
}

uint64_t pages_give_back(struct pages *pages, uint64_t bytes) {
    pages_settle_later(pages, true);
    return give_back(pages, bytes);
}

uint64_t pages_give_back_now(struct pages *pages, uint64_t bytes) {
    uint64_t given = give_back(pages, bytes);
    if (given < bytes && pages_settle_now(pages))
        given += give_back(pages, bytes - given);
    return given;
}
