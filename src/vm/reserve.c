/* reserve.c: address space: segments of our own, and how much of it could be backed. A segment that
 * has ended is retained with what is mapped there, so that programs that empty PyTorch's cache all
 * the time do not reach the driver; no thread is waited for. */
#include "vm/vm_internal.h"

/* cuMemGetInfo may not know yet what has just been released. So before anything is refused the
 * driver is asked for the memory itself, as where PyTorch is alone. */
static bool driver_has(const struct vm *vm, uint64_t bytes) {
    CUmemAllocationProp properties = vm_properties(vm->device);
    CUmemGenericAllocationHandle handle = 0;
    uint64_t npages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    CUstreamCaptureMode before = capture_mode_relax();
    bool had =
        gate_create(&handle, npages * PAGE_BYTES, &properties, npages * PAGE_BYTES) == CUDA_SUCCESS;
    if (had)
        vm_release(handle);
    capture_mode_set(before);
    return had;
}

static uint64_t at_hand_bytes(struct vm *vm) {
    lock_take(&vm->lock);
    size_t pages =
        vm_idle_pages(vm) + vm->cache.cached_pages + vm->in_flight + vm->host.room - vm->host.count;
    lock_give(&vm->lock);
    return pages * PAGE_BYTES;
}

bool vm_could_back(struct vm *vm, uint64_t bytes) {
    struct room room = vm_room(vm, MEMINFO_ANSWER);
    if (!room.total_bytes || at_hand_bytes(vm) + room.free_bytes >= bytes)
        return true;
    vm_give_up_behind(vm);
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
        CUstreamCaptureMode before = capture_mode_relax();
        REAL(cuMemAddressFree)(address, bytes);
        capture_mode_set(before);
        vm_called(vm);
        vm_changed(vm);
    }
}

/* --- retained segments --- */

/* Work of a new owner on the same stream comes after that of the old one, if there is no other
 * stream that may have been used. PyTorch alone waits for all of them, in cudaFree. */
static uint64_t revive(struct vm *vm, uint64_t bytes, uint64_t stream) {
    uint64_t now_ns = clock_ns();
    lock_take(&vm->lock);
    vm_note_move(vm, now_ns);
    bool in_order =
        stream != STREAM_PER_THREAD && !vm->streams.sync_context && vm->streams.count <= 1;
    struct page_segment *segment = page_table_revive(&vm->table, bytes, stream, in_order);
    uint64_t address = segment ? segment->address : 0;
    vm->figures.revived += address != 0;
    lock_give(&vm->lock);
    return address;
}

/* Another stream's may do if the GPU has finished with it. */
static uint64_t revive_fenced(struct vm *vm, uint64_t bytes, uint64_t stream) {
    uint64_t address = revive(vm, bytes, stream);
    lock_take(&vm->lock);
    bool others = vm->table.retained_count > 0;
    lock_give(&vm->lock);
    if (address || !others)
        return address;
    vm_fence_poll(vm, false);
    return revive(vm, bytes, stream);
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
    vm_changed(vm);
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
    if (!vm_could_back(vm, bytes))
        return 0;
    vm_stream_add(vm, stream);
    CUstreamCaptureMode before = capture_mode_relax();
    uint64_t address = revive_fenced(vm, bytes, stream);
    if (!address)
        address = reserve(vm, bytes, stream);
    capture_mode_set(before);
    return address;
}

bool vm_unreserve(struct vm *vm, uint64_t address) {
    uint64_t now_ns = clock_ns();
    lock_take(&vm->lock);
    vm_note_move(vm, now_ns);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool ours = segment && !segment->range && segment->address == address && !segment->ended;
    if (ours)
        page_table_end(&vm->table, segment);
    lock_give(&vm->lock);
    if (ours)
        vm_fence_given_up(vm);
    return ours;
}
