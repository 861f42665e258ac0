/* range.c: ranges whose addresses are reserved elsewhere. Blocks live only where it is attached;
 * what was attached once keeps its pages, idle, as retained segments do, so that programs that
 * empty PyTorch's cache all the time do not reach the driver. No thread is waited for. */
#include "vm/vm_internal.h"

bool vm_range_add(struct vm *vm, uint64_t address, uint64_t bytes, bool counted) {
    lock_take(&vm->lock);
    bool added = page_table_add_range(&vm->table, address, bytes, counted) != NULL;
    lock_give(&vm->lock);
    return added;
}

bool vm_range_prepare(struct vm *vm, uint64_t bytes) {
    lock_take(&vm->lock);
    bool prepared = page_table_prepare(&vm->table, bytes);
    lock_give(&vm->lock);
    return prepared;
}

static bool is_attached(const struct page_segment *segment) {
    for (size_t i = 0; i < segment->page_count; i++)
        if (segment->pages[i].attached)
            return true;
    return false;
}

bool vm_range_end(struct vm *vm, uint64_t address) {
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool ends = segment && segment->range && segment->address == address && !segment->ended &&
                !is_attached(segment);
    if (ends)
        page_table_end(&vm->table, segment);
    lock_give(&vm->lock);
    if (ends)
        vm_sweep(vm);
    return ends;
}

/* Pages of a range. */
struct part {
    struct page_segment *segment; /* NULL: not in one range */
    size_t first, count;
};

/* The lock is held. */
static struct part find(struct vm *vm, uint64_t address, uint64_t bytes) {
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    if (!segment || !segment->range || segment->ended || !bytes || address % PAGE_BYTES ||
        bytes % PAGE_BYTES || bytes > segment->address + segment->bytes - address)
        return (struct part){0};
    return (struct part){segment, page_table_first(segment, address), bytes / PAGE_BYTES};
}

bool vm_attach(struct vm *vm, uint64_t address, uint64_t bytes) {
    uint64_t now_ns = clock_ns();
    lock_take(&vm->lock);
    vm_note_move(vm, now_ns);
    struct part part = find(vm, address, bytes);
    bool attached =
        part.segment && page_table_attach(&vm->table, part.segment, part.first, part.count);
    lock_give(&vm->lock);
    return attached;
}

/* The pages stay mapped. The owner of the range finds them there when it attaches the addresses
 * again, for its work is in order; other ranges get them when the GPU has finished. */
bool vm_detach(struct vm *vm, uint64_t address, uint64_t bytes) {
    uint64_t now_ns = clock_ns();
    lock_take(&vm->lock);
    vm_note_move(vm, now_ns);
    struct part part = find(vm, address, bytes);
    bool detached =
        part.segment && page_table_detach(&vm->table, part.segment, part.first, part.count);
    lock_give(&vm->lock);
    return detached;
}
