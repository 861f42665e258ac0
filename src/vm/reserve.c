/* reserve.c: address space: segments of our own, and how much of it could be backed. A segment that
 * has ended is retained with what is mapped there, so that programs that empty PyTorch's cache all
 * the time do not reach the driver; nobody is waited for. */
#include "vm/vm_internal.h"

#include <sched.h>

/* So many may be retained; beyond that, and when they have been for long, they go. */
enum { MAX_RETAINED = 512 };

/* Where our own thread is just making an extent, it may be neither with us nor with the driver: it
 * is waited for before the answer is no. */
bool vm_could_back(struct vm *vm, uint64_t bytes) {
    for (;;) {
        size_t free_bytes = 0, total_bytes = 0;
        lock_take(&vm->lock);
        bool prefetching = vm->prefetching > 0;
        uint64_t at_hand = (vm->table.idle_pages + vm->cached_count + vm->in_flight +
                            vm->host.room - vm->host.count) *
                           PAGE_BYTES;
        lock_give(&vm->lock);
        if (at_hand >= bytes)
            return true;
        if (REAL(cuMemGetInfo_v2)(&free_bytes, &total_bytes) != CUDA_SUCCESS || !prefetching ||
            at_hand + free_bytes >= bytes)
            return at_hand + free_bytes >= bytes;
        sched_yield();
    }
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
        REAL(cuMemAddressFree)(address, bytes);
        vm_called(vm);
        vm_changed(vm);
    }
}

/* --- retained segments --- */

/* Work of a new owner on the same stream comes after that of the old one, if it is known that only
 * this stream was used. */
static uint64_t revive(struct vm *vm, uint64_t bytes, uint64_t stream) {
    lock_take(&vm->lock);
    bool in_order = stream != STREAM_PER_THREAD && !vm->sync_context &&
                    vm->unsure_epoch <= vm->table.fenced_epoch;
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

/* The pages of the segment retained for longest that the GPU has finished with. Returns how many.
 */
static size_t decommit_oldest_retained(struct vm *vm, uint64_t epoch, size_t most) {
    struct page *list[BATCH];
    size_t count = 0;
    lock_take(&vm->lock);
    if (vm->table.retained_count > most)
        count = page_table_victims_retained(&vm->table, epoch, BATCH, list);
    vm_victims_picked(vm, list, count);
    lock_give(&vm->lock);
    return count ? vm_unmap(vm, list, count) : 0;
}

void vm_decommit_retained(struct vm *vm, uint64_t epoch, size_t most) {
    while (decommit_oldest_retained(vm, epoch, most) > 0)
        continue;
    vm_sweep(vm);
}

size_t vm_decommit_ended_ranges(struct vm *vm, size_t want) {
    struct page *list[BATCH];
    size_t done = 0, count = 0, unmapped = 0;
    lock_take(&vm->lock);
    bool any = want && page_table_retained_range(&vm->table);
    lock_give(&vm->lock);
    if (any)
        vm_fence_poll(vm, false);
    do {
        lock_take(&vm->lock);
        struct page_segment *range = any ? page_table_retained_range(&vm->table) : NULL;
        count =
            range ? page_table_victims_in(&vm->table, range, min_u64(want - done, BATCH), list) : 0;
        vm_victims_picked(vm, list, count);
        lock_give(&vm->lock);
        unmapped = count ? vm_unmap(vm, list, count) : 0;
        done += unmapped;
    } while (unmapped && done < want);
    return done;
}

/* --- segments --- */

static uint64_t reserve(struct vm *vm, uint64_t bytes, uint64_t stream) {
    CUdeviceptr address = 0;
    vm_called(vm);
    vm_changed(vm);
    if (REAL(cuMemAddressReserve)(&address, bytes, PAGE_BYTES, 0, 0) != CUDA_SUCCESS)
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
    uint64_t address = revive_fenced(vm, bytes, stream);
    return address ? address : reserve(vm, bytes, stream);
}

bool vm_unreserve(struct vm *vm, uint64_t address) {
    lock_take(&vm->lock);
    struct page_segment *segment = page_table_lookup(&vm->table, address);
    bool ours = segment && !segment->range && segment->address == address && !segment->ended;
    if (ours)
        page_table_end(&vm->table, segment);
    bool many = vm->table.retained_count > MAX_RETAINED;
    lock_give(&vm->lock);
    if (many) {
        vm_fence_poll(vm, false);
        vm_decommit_retained(vm, UINT64_MAX, MAX_RETAINED);
    }
    return ours;
}
