/* access.c: who may access our pages: the device itself, and others since peer access was enabled.
 * A page must never reach its user before all of them have access. */
#include "vm/vm_internal.h"

/* Pages that follow each other, and the devices that have access to them. */
struct run {
    struct page_segment *segment;
    size_t first, count;
    size_t devices;
};

/* The next pages of [*next, end) to which not all devices have access, whole extents of memory
 * only. The lock is held. */
static struct run next_closed(const struct vm *vm, struct page_segment *segment, size_t *next,
                              size_t end) {
    struct run run = {.segment = segment, .devices = vm->peers.count};
    while (*next < end) {
        const struct page *page = page_lead(&segment->pages[*next]);
        size_t first = (size_t)(page - segment->pages), behind = first + page_npages(page);
        bool closed = page->state == PAGE_MAPPED && page->open_to < run.devices;
        if (!closed && run.count)
            break;
        if (closed && !run.count)
            run.first = first;
        run.count = closed ? behind - run.first : 0;
        *next = behind;
    }
    return run;
}

static bool set_access(struct vm *vm, const struct run *run) {
    vm_called(vm);
    return vm_granted(REAL(cuMemSetAccess)(run->segment->address + run->first * PAGE_BYTES,
                                           run->count * PAGE_BYTES, vm->peers.list, run->devices));
}

/* The lock is held. */
static void mark(const struct run *run) {
    for (size_t i = run->first; i < run->first + run->count; i++)
        run->segment->pages[i].open_to = (uint8_t)run->devices;
}

/* The list of devices may grow meanwhile: then those pages are looked at once more. */
bool vm_set_access(struct vm *vm, struct page_segment *segment, size_t first, size_t count) {
    for (size_t next = first;;) {
        lock_take(&vm->lock);
        struct run run = next_closed(vm, segment, &next, first + count);
        lock_give(&vm->lock);
        if (!run.count)
            return true;
        if (!set_access(vm, &run))
            return false;
        LOCKED(&vm->lock);
        mark(&run);
        if (run.devices < vm->peers.count)
            next = run.first;
    }
}

/* The extent belongs to one block in [first, end) alone, and no device has been given access to it.
 */
static bool can_undo(const struct page *lead, const struct page *first, const struct page *end) {
    bool possible = lead->state == PAGE_MAPPED;
    for (const struct page *page = lead; possible && page < lead + lead->npages; page++) {
        bool inside = page >= first && page < end;
        possible = !page->open_to && !page->opening && !page->pinned && !page->guards &&
                   page->live <= inside;
    }
    return possible;
}

void vm_undo_closed(struct vm *vm, struct page_segment *segment, size_t first, size_t count) {
    struct page *list[BATCH], *from = segment->pages + first, *end = from + count;
    for (struct page *page = from; page < end;) {
        size_t taken = 0;
        lock_take(&vm->lock);
        while (page < end && taken < BATCH) {
            struct page *lead = page_lead(page);
            page = lead + page_npages(lead);
            if (!can_undo(lead, from, end))
                continue;
            page_table_take_victim(&vm->table, lead);
            list[taken++] = lead;
        }
        lock_give(&vm->lock);
        vm_unmap(vm, list, taken);
    }
}

/* --- further devices --- */

/* The next mapped pages from the address on that are closed to a device; they stay where they are
 * until the flag is taken from them. */
static struct run hold_next(struct vm *vm, uint64_t from) {
    const struct page_table *table = &vm->table;
    struct run run = {0};
    LOCKED(&vm->lock);
    for (size_t i = 0; i < table->segment_count && !run.count; i++) {
        struct page_segment *segment = table->segments[i];
        if (segment->address + segment->bytes <= from)
            continue;
        size_t next = from > segment->address ? page_table_first(segment, from) : 0;
        run = next_closed(vm, segment, &next, segment->page_count);
    }
    for (size_t i = run.first; i < run.first + run.count; i++)
        run.segment->pages[i].opening = true;
    vm->opening += run.count;
    return run;
}

static void let_go(struct vm *vm, const struct run *run, bool opened) {
    lock_take(&vm->lock);
    for (size_t i = run->first; i < run->first + run->count; i++)
        run->segment->pages[i].opening = false;
    vm->opening -= run->count;
    vm->landed++;
    if (opened)
        mark(run);
    lock_give(&vm->lock);
    bell_ring(&vm->arrived);
}

static bool open_mapped(struct vm *vm) {
    bool opened = true;
    for (uint64_t from = 0; opened;) {
        struct run run = hold_next(vm, from);
        if (!run.count)
            break;
        opened = set_access(vm, &run);
        let_go(vm, &run, opened);
        from = run.segment->address + (run.first + run.count) * PAGE_BYTES;
    }
    return opened;
}

bool vm_add_peer(struct vm *vm, unsigned device) {
    lock_take(&vm->lock);
    while (vm->peers.adding) /* one thread at a time */
        bell_await(&vm->arrived, &vm->lock);
    vm->peers.adding = true;
    bool known = false, room = vm->peers.count < MAX_DEVICES;
    for (size_t i = 0; i < vm->peers.count; i++)
        known = known || vm->peers.list[i].location.id == (int)device;
    if (!known && room)
        vm->peers.list[vm->peers.count++] = vm_access_desc(device);
    lock_give(&vm->lock);
    RELAXED_CAPTURES;
    bool opened = known || (room && open_mapped(vm));
    lock_take(&vm->lock);
    if (room && !opened) /* what has been opened for it may stay so */
        vm->peers.count--;
    vm->peers.adding = false;
    lock_give(&vm->lock);
    bell_ring(&vm->arrived);
    return opened;
}
