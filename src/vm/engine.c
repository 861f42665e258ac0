/* engine.c: an engine is opened, and tells what it has. It must decide nothing about memory. */
#include "vm/vm_internal.h"

struct vm *vm_open(unsigned device, bool (*capturing)(void), double threshold_percent) {
    CUcontext context = NULL;
    if (!vm_probe(device) || !real_current_context(&context) || !context)
        return NULL;
    struct vm *vm = memory_map(sizeof *vm);
    if (!vm || !vm_cache_open(vm) || !page_table_prepare(&vm->table, 0))
        return NULL; /* the few pages that it has had it keeps: this is tried once */
    vm->device = device;
    vm->context = context;
    vm->capturing = capturing;
    vm->threshold_percent = threshold_percent;
    vm->lowvram = threshold_percent <= 0;
    vm->peers.list[vm->peers.count++] = vm_access_desc(device);
    return vm;
}

bool vm_owns(struct vm *vm, uint64_t address) {
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool own = segment && segment->pages[page_table_first(segment, address)].attached;
    lock_give(&vm->lock);
    return own;
}

/* Not of pages: to the program a segment is one allocation, as cudaMalloc makes them. What others
 * have reserved and mapped they know themselves. */
bool vm_lookup(struct vm *vm, uint64_t address, struct vm_location *place) {
    lock_take(&vm->lock);
    const struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool found = segment && !segment->ended && !segment->range;
    if (found)
        *place = (struct vm_location){
            .address = segment->address, .bytes = segment->bytes, .context = vm_context(vm)};
    lock_give(&vm->lock);
    return found;
}

uint64_t vm_context(const struct vm *vm) {
    return (uint64_t)(uintptr_t)vm->context;
}

uint64_t vm_changes(const struct vm *vm) {
    return atomic_load_explicit(&vm->changes, memory_order_acquire);
}

uint64_t vm_idle_bytes(struct vm *vm) {
    lock_take(&vm->lock);
    uint64_t bytes = vm_idle_pages(vm) * PAGE_BYTES;
    lock_give(&vm->lock);
    return bytes;
}

void vm_trim(struct vm *vm) {
    uint64_t now_ns = clock_ns();
    lock_take(&vm->lock);
    vm_note_move(vm, now_ns);
    page_table_retain_uncounted(&vm->table);
    lock_give(&vm->lock);
}

void vm_commit_failed(struct vm *vm, uint64_t address, uint64_t bytes) {
    lock_take(&vm->lock);
    const struct page_segment *segment = page_table_lookup(&vm->table, address);
    if (segment && segment->counted)
        vm->figures.failed_bytes += bytes;
    lock_give(&vm->lock);
}

struct vm_figures vm_figures(struct vm *vm) {
    lock_take(&vm->lock);
    struct vm_figures figures = vm->figures;
    figures.reserved_bytes = vm->table.reserved_pages * PAGE_BYTES;
    figures.mapped_bytes = vm->table.mapped_pages * PAGE_BYTES;
    figures.idle_bytes = vm_idle_pages(vm) * PAGE_BYTES;
    figures.retained_bytes = vm->table.idle_pages[IDLE_RETAINED] * PAGE_BYTES;
    figures.cached_bytes = vm->cache.cached_pages * PAGE_BYTES;
    figures.in_flight_bytes = vm->in_flight * PAGE_BYTES;
    figures.physical_bytes = vm->cache.physical_pages * PAGE_BYTES;
    figures.spilled_bytes = vm->host.count * PAGE_BYTES;
    figures.may_spill_bytes = vm->host.room * PAGE_BYTES;
    figures.spilled_ns = vm_spilled_ns(vm);
    figures.work_ns = atomic_load_explicit(&vm->work_ns, memory_order_relaxed);
    figures.calls = atomic_load_explicit(&vm->calls, memory_order_relaxed);
    lock_give(&vm->lock);
    return figures;
}
