/* lookup.c: where an address lies, for those who are asked about it. It must not tell of pages: to
 * the program a segment is one allocation, as cudaMalloc makes them. What others have reserved and
 * mapped they know themselves. */
#include "vm/vm_internal.h"

bool vm_lookup(struct vm *vm, uint64_t address, struct vm_location *place) {
    lock_take(&vm->lock);
    const struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool found = segment && !segment->ended && !segment->range;
    if (found)
        *place = (struct vm_location){.address = segment->address,
                                      .bytes = segment->bytes,
                                      .context = (uint64_t)(uintptr_t)vm->context};
    lock_give(&vm->lock);
    return found;
}
