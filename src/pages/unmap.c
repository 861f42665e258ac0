/* unmap.c: idle pages lose their memory, and what is kept goes back to the driver. It must touch
 * only pages that it has picked from the table, and wait for no other thread. */
#include "pages/internal.h"

/* How many of the pages from i on follow each other without a gap. */
static size_t run_length(struct page *const *list, size_t i, size_t count) {
    size_t n = 1;
    while (i + n < count && list[i + n] == list[i] + n && list[i]->segment == list[i + n]->segment)
        n++;
    return n;
}

size_t pages_unmap(struct pages *pages, struct page **list, size_t count) {
    size_t done = 0;
    for (size_t i = 0; i < count;) {
        size_t n = run_length(list, i, count);
        bool unmapped = REAL(cuMemUnmap)(page_address(list[i]), n * PAGE_BYTES) == CUDA_SUCCESS;
        lock_take(&pages->lock);
        for (size_t k = i; k < i + n; k++) {
            uint64_t handle = list[k]->handle;
            page_table_emptied(&pages->table, list[k]);
            if (unmapped)
                pages_keep(pages, handle);
            else
                page_table_mapped(&pages->table, list[k], handle);
        }
        pages->figures.unmaps += unmapped ? n : 0;
        pages->moving -= n;
        pages->moved += unmapped ? n : 0;
        lock_give(&pages->lock);
        done += unmapped ? n : 0;
        i += n;
    }
    return done;
}

size_t pages_purge(struct pages *pages, size_t want) {
    struct page *list[BATCH];
    size_t done = 0;
    while (done < want) {
        lock_take(&pages->lock);
        size_t room = want - done < BATCH ? want - done : BATCH;
        size_t count = page_table_pick(&pages->table, room, list);
        pages->moving += count;
        lock_give(&pages->lock);
        if (!count)
            break;
        done += pages_unmap(pages, list, count);
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

size_t pages_purge_for_block(struct pages *pages, size_t want) {
    size_t done = pages_purge_settled(pages, want);
    if (done < want && pages_settle_now(pages))
        done += pages_purge(pages, want - done);
    return done;
}

/* --- giving back --- */

static uint64_t give_back(struct pages *pages, uint64_t bytes) {
    size_t want = bytes / PAGE_BYTES;
    lock_take(&pages->lock);
    size_t kept = pages->kept_count;
    lock_give(&pages->lock);
    size_t released = pages_release(pages, min_u64(kept, want));
    while (released < want && pages_purge(pages, min_u64(want - released, BATCH)))
        released += pages_release(pages, min_u64(want - released, BATCH));
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
