/* engine.c: an engine is opened, has address space, and tells of it. A segment or range that has
 * ended stays, with what is mapped there, so that programs that empty PyTorch's cache all the time
 * do not reach the driver. It must wait for no thread. */
#include "vm/book.h"
#include "vm/vm_internal.h"

struct vm *vm_new(unsigned device, bool (*capturing)(void)) {
    CUcontext context = NULL;
    struct vm *vm = real_current_context(&context) && context ? memory_map(sizeof *vm) : NULL;
    if (!vm || !vm_cache_open(vm) || !page_table_prepare(&vm->table, 0))
        return NULL; /* the few pages that it has had it keeps: this is tried once */
    vm->device = device;
    vm->context = context;
    vm->capturing = capturing;
    vm->properties = vm_properties(device);
    vm->peers.list[vm->peers.count++] = vm_access_desc(device);
    return vm;
}

struct vm *vm_open(unsigned device, bool (*capturing)(void), double threshold_percent) {
    CUmemAllocationProp properties = vm_properties(device);
    struct vm *vm = vm_probe(device, &properties) ? vm_new(device, capturing) : NULL;
    if (!vm)
        return NULL;
    vm->threshold_percent = threshold_percent;
    vm->lowvram = threshold_percent <= 0;
    return vm;
}

/* Not of pages: to the program a segment is one allocation, as cudaMalloc makes them. */
bool vm_owns(struct vm *vm, uint64_t address, uint64_t *segment, uint64_t *bytes) {
    LOCKED(&vm->lock);
    const struct page_segment *in = page_table_lookup(&vm->table, address);
    if (!in || in->ended || !in->pages[page_table_first(in, address)].attached)
        return false;
    *segment = in->address;
    *bytes = in->range ? 0 : in->bytes;
    return true;
}

uint64_t vm_context(const struct vm *vm) {
    return (uint64_t)(uintptr_t)vm->context;
}

uint64_t vm_changes(const struct vm *vm) {
    return atomic_load_explicit(&vm->changes, memory_order_acquire);
}

void vm_trim(struct vm *vm) {
    LOCKED(&vm->lock);
    vm_set_clock(vm);
    page_table_return_uncounted(&vm->table);
}

void vm_commit_failed(struct vm *vm, uint64_t address, uint64_t bytes) {
    LOCKED(&vm->lock);
    const struct page_segment *segment = page_table_lookup(&vm->table, address);
    if (segment && segment->counted)
        vm->figures.failed_bytes += bytes;
}

struct vm_figures vm_figures(struct vm *vm) {
    size_t promised = 0; /* pages */
    LOCKED(&vm->lock);
    for (size_t size = 0; vm->in_steps && size < EXTENT_SIZES; size++)
        promised += vm->promised[size] * extent_npages(size);
    struct vm_figures figures = vm->figures;
    figures.reserved_bytes = vm->table.reserved_pages * PAGE_BYTES;
    figures.mapped_bytes = vm->table.mapped_pages * PAGE_BYTES;
    figures.idle_bytes = vm_idle_pages(vm) * PAGE_BYTES;
    figures.returned_bytes = vm->table.idle_pages[IDLE_RETURNED] * PAGE_BYTES;
    figures.cached_bytes = vm->cache.cached_pages * PAGE_BYTES;
    figures.in_flight_bytes = vm_in_flight(vm) * PAGE_BYTES;
    figures.held_idle_bytes = minus_u64(
        figures.idle_bytes + figures.cached_bytes + figures.in_flight_bytes, promised * PAGE_BYTES);
    figures.physical_bytes = vm->cache.physical_pages * PAGE_BYTES;
    figures.spilled_bytes = vm->host.count * PAGE_BYTES;
    figures.spilled_ns = vm->host.spent_ns + (vm->host.count ? clock_ns() - vm->host.since_ns : 0);
    figures.calls = atomic_load_explicit(&vm->calls, memory_order_relaxed);
    return figures;
}

/* --- how much could be backed --- */

/* cuMemGetInfo may not know yet what has just been released. So before anything is refused the
 * driver is asked for the memory itself, as where PyTorch is alone. */
static bool driver_has(const struct vm *vm, uint64_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    uint64_t npages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    RELAXED_CAPTURES;
    bool had = gate_create(&handle, npages * PAGE_BYTES, &vm->properties, npages * PAGE_BYTES) ==
               CUDA_SUCCESS;
    if (had)
        vm_release(handle);
    return had;
}

static uint64_t at_hand_bytes(struct vm *vm) {
    LOCKED(&vm->lock);
    size_t pages = vm_idle_pages(vm) + vm->cache.cached_pages + vm_in_flight(vm) + vm->host.room -
                   vm->host.count;
    return pages * PAGE_BYTES;
}

void vm_drop_guards(struct vm *vm) {
    LOCKED(&vm->lock);
    page_table_drop_guards(&vm->table);
}

bool vm_could_back(struct vm *vm, uint64_t bytes) {
    struct room room = vm_room(vm, MEMINFO_ANSWER);
    if (!room.total_bytes || at_hand_bytes(vm) + room.free_bytes >= bytes)
        return true;
    vm_drop_guards(vm);
    uint64_t at_hand = at_hand_bytes(vm);
    return at_hand + room.free_bytes >= bytes || driver_has(vm, bytes - at_hand);
}

/* The addresses of segments that have ended go back once nothing is mapped there. */
void vm_sweep(struct vm *vm) {
    for (;;) {
        lock_take(&vm->lock);
        struct page_segment *segment = page_table_ended(&vm->table);
        uint64_t address = segment ? segment->address : 0, bytes = segment ? segment->bytes : 0;
        if (segment)
            page_table_remove(&vm->table, segment);
        lock_give(&vm->lock);
        if (!address)
            return;
        RELAXED_CAPTURES;
        REAL(cuMemAddressFree)(address, bytes);
        vm_called(vm);
    }
}

/* --- returned segments, and ranges --- */

/* Work of a new owner on the same stream comes after that of the old one, if there is no other
 * stream that may have been used. PyTorch alone waits for all of them, in cudaFree. */
static uint64_t revive(struct vm *vm, struct revival revival) {
    LOCKED(&vm->lock);
    vm_set_clock(vm);
    revival.in_order = revival.in_order && !vm->streams.sync_context && vm->streams.count <= 1;
    struct page_segment *segment = page_table_revive(&vm->table, &revival);
    return segment ? segment->address : 0;
}

/* Another stream's may do if the GPU has finished with it. */
static uint64_t revive_fenced(struct vm *vm, struct revival revival) {
    uint64_t address = revive(vm, revival);
    if (address || !vm_read(vm, &vm->table.returned_count))
        return address;
    vm_fence_poll(vm, false);
    return revive(vm, revival);
}

/* --- segments --- */

/* One refused call is not the end: where memory lies with the host the driver has none for the
 * segment that it would be asked for instead. */
static uint64_t reserve(struct vm *vm, uint64_t bytes, uint64_t stream) {
    CUdeviceptr address = 0;
    bool granted = false;
    for (int attempts = 0; !granted && attempts < 2; attempts++) {
        vm_called(vm);
        granted = REAL(cuMemAddressReserve)(&address, bytes, PAGE_BYTES, 0, 0) == CUDA_SUCCESS;
    }
    if (!granted)
        return 0;
    lock_take(&vm->lock);
    bool added = page_table_add(&vm->table, address, bytes, stream) != NULL;
    lock_give(&vm->lock);
    if (added)
        return address;
    REAL(cuMemAddressFree)(address, bytes);
    return 0;
}

uint64_t vm_reserve(struct vm *vm, uint64_t bytes, uint64_t stream) {
    vm_sweep(vm);
    vm_stream_add(vm, stream);
    RELAXED_CAPTURES;
    struct revival revival = {bytes, stream, .in_order = stream != STREAM_PER_THREAD};
    uint64_t address = revive_fenced(vm, revival);
    return address ? address : reserve(vm, bytes, stream);
}

bool vm_unreserve(struct vm *vm, uint64_t address) {
    lock_take(&vm->lock);
    vm_set_clock(vm);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool ours = segment && !segment->range && segment->address == address && !segment->ended;
    if (ours)
        page_table_end(&vm->table, segment);
    lock_give(&vm->lock);
    if (ours)
        vm_fence_returned(vm);
    return ours;
}

/* --- ranges whose addresses are reserved elsewhere --- */

bool vm_range_add(struct vm *vm, uint64_t address, uint64_t bytes, bool counted) {
    LOCKED(&vm->lock);
    return page_table_add_range(&vm->table, address, bytes, counted) != NULL;
}

uint64_t vm_range_revive(struct vm *vm, uint64_t bytes) {
    RELAXED_CAPTURES;
    return revive_fenced(vm, (struct revival){.bytes = bytes, .range = true});
}

bool vm_range_prepare(struct vm *vm, uint64_t bytes) {
    LOCKED(&vm->lock);
    return page_table_prepare(&vm->table, bytes);
}

static bool any_attached(const struct page_segment *segment) {
    for (size_t i = 0; i < segment->page_count; i++)
        if (segment->pages[i].attached)
            return true;
    return false;
}

bool vm_range_claim(struct vm *vm, uint64_t address, uint64_t bytes) {
    struct book_range range;
    LOCKED(&vm->lock);
    return book_range_claim(address, bytes, vm->device, &range) &&
           (page_table_lookup(&vm->table, address) ||
            page_table_add_range(&vm->table, range.address, range.bytes, true));
}

enum vm_range_end vm_range_end(struct vm *vm, uint64_t address) {
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool ours = segment && segment->range && segment->address == address && !segment->ended;
    bool ends = ours && !any_attached(segment);
    if (ends)
        page_table_end(&vm->table, segment);
    lock_give(&vm->lock);
    if (ends)
        vm_sweep(vm);
    return !ours ? VM_RANGE_NOT_OURS : ends ? VM_RANGE_ENDED : VM_RANGE_IN_USE;
}

/* The range in which all of that lies, in whole pages; NULL: none. The lock is held. */
static struct page_segment *range_around(struct vm *vm, uint64_t address, uint64_t bytes) {
    struct page_segment *range = page_table_lookup(&vm->table, address);
    bool fits = range && range->range && !range->ended && bytes && address % PAGE_BYTES == 0 &&
                bytes % PAGE_BYTES == 0 && bytes <= range->address + range->bytes - address;
    return fits ? range : NULL;
}

bool vm_attach(struct vm *vm, uint64_t address, uint64_t bytes) {
    LOCKED(&vm->lock);
    vm_set_clock(vm);
    struct page_segment *range = range_around(vm, address, bytes);
    return range && page_table_attach(&vm->table, range, page_table_first(range, address),
                                      bytes / PAGE_BYTES);
}

/* The pages stay mapped. The owner of the range finds them there when it attaches the addresses
 * again, for its work is in order; other ranges get them when the GPU has finished. */
bool vm_detach(struct vm *vm, uint64_t address, uint64_t bytes) {
    LOCKED(&vm->lock);
    vm_set_clock(vm);
    struct page_segment *range = range_around(vm, address, bytes);
    size_t first = range ? page_table_first(range, address) : 0, end = first + bytes / PAGE_BYTES;
    if (!range || !page_table_detach(&vm->table, range, first, end - first))
        return false;
    /* A step's handle is promised its piece again; there is none where mapping it has failed. */
    for (size_t i = first, npages; vm->in_steps && i < end; i += npages) {
        npages = page_npages(&range->pages[i]);
        vm->promised[extent_size_index(npages)] += range->pages[i].state != PAGE_EMPTY;
    }
    return true;
}
