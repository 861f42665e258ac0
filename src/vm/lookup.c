/* lookup.c: where an address lies, for those who are asked about it. It must not tell of pages: to
 * the program a segment is one allocation, as cudaMalloc makes them. What others have reserved and
 * mapped they know themselves. */
#include "vm/vm_internal.h"

bool pages_find(struct pages *pages, uint64_t address, struct pages_place *place) {
    lock_take(&pages->lock);
    const struct page_segment *segment = page_table_find(&pages->table, address);
    bool found = segment && !segment->ended && !segment->range;
    if (found)
        *place = (struct pages_place){.address = segment->address,
                                      .bytes = segment->bytes,
                                      .context = (uint64_t)(uintptr_t)pages->context};
    lock_give(&pages->lock);
    return found;
}
