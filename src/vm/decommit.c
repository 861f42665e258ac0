/* decommit.c: which idle extents lose their place, and when what is cached goes back to the driver.
 * It must wait for no other thread. */
#include "vm/vm_internal.h"

size_t vm_decommit_batch(struct vm *vm, const struct victims *victims, size_t extents) {
    struct page *list[BATCH];
    lock_take(&vm->lock);
    size_t count = page_table_victims(&vm->table, victims, list, min_u64(extents, BATCH));
    vm_victims_picked(vm, list, count);
    lock_give(&vm->lock);
    return count ? vm_unmap(vm, list, count) : 0;
}

size_t vm_decommit(struct vm *vm, enum page_idle list, size_t want) {
    struct victims victims = {.list = list, .want = want, .idle_since_ns = UINT64_MAX};
    size_t done = 0;
    vm_spill_reclaim(vm);
    while (victims.want) {
        size_t unmapped = vm_decommit_batch(vm, &victims, BATCH);
        if (!unmapped)
            break;
        done += unmapped;
        victims.want = minus_u64(want, done);
    }
    return done;
}

static size_t decommit_any(struct vm *vm, size_t want) {
    size_t done = vm_decommit(vm, IDLE_RETAINED, want);
    return done + vm_decommit(vm, IDLE_ATTACHED, minus_u64(want, done));
}

/* Where nothing is idle there is nothing to find out. */
static bool any_idle(struct vm *vm, enum page_idle list) {
    lock_take(&vm->lock);
    bool any = vm->table.idle_pages[list] > 0;
    lock_give(&vm->lock);
    return any;
}

size_t vm_decommit_fenced(struct vm *vm, enum page_idle list, size_t want) {
    if (!want || !any_idle(vm, list) || !vm_may_unmap(vm))
        return 0;
    size_t done = vm_decommit(vm, list, want);
    if (done < want && any_idle(vm, list)) {
        vm_fence_poll(vm, false);
        done += vm_decommit(vm, list, want - done);
    }
    return done;
}

size_t vm_decommit_for_block(struct vm *vm, size_t want) {
    size_t done = vm_decommit_fenced(vm, IDLE_RETAINED, want);
    done += vm_decommit_fenced(vm, IDLE_ATTACHED, minus_u64(want, done));
    bool more = any_idle(vm, IDLE_RETAINED) || any_idle(vm, IDLE_ATTACHED);
    if (done < want && more && vm_fence_wait(vm))
        done += decommit_any(vm, want - done);
    return done;
}

/* --- giving back --- */

/* now: though unmapping may wait for the GPU. */
static uint64_t reclaim(struct vm *vm, uint64_t bytes, bool now) {
    size_t want = bytes / PAGE_BYTES, released = vm_cache_trim(vm, want, 0);
    while (released < want && (now || vm_may_unmap(vm)) &&
           decommit_any(vm, min_u64(want - released, BATCH)))
        released += vm_cache_trim(vm, min_u64(want - released, BATCH), 0);
    vm_sweep(vm);
    return released * PAGE_BYTES;
}

uint64_t vm_reclaim_fenced(struct vm *vm, uint64_t bytes) {
    CUstreamCaptureMode before = capture_mode_relax();
    uint64_t given = reclaim(vm, bytes, true);
    capture_mode_set(before);
    return given;
}

uint64_t vm_reclaim(struct vm *vm, uint64_t bytes) {
    CUstreamCaptureMode before = capture_mode_relax();
    vm_fence_poll(vm, true);
    uint64_t given = reclaim(vm, bytes, false);
    capture_mode_set(before);
    return given;
}

uint64_t vm_reclaim_now(struct vm *vm, uint64_t bytes) {
    CUstreamCaptureMode before = capture_mode_relax();
    uint64_t given = reclaim(vm, bytes, true);
    if (given < bytes && vm_fence_wait(vm))
        given += reclaim(vm, bytes - given, true);
    capture_mode_set(before);
    return given;
}

void vm_reclaim_given_up(struct vm *vm) {
    CUstreamCaptureMode before = capture_mode_relax();
    if (any_idle(vm, IDLE_RETAINED))
        vm_fence_wait_briefly(vm);
    vm_decommit(vm, IDLE_RETAINED, SIZE_MAX);
    vm_cache_trim(vm, SIZE_MAX, 0);
    vm_sweep(vm);
    capture_mode_set(before);
}

/* A block is tried as it is, again when all that is idle has gone back, and once more in single
 * pages (map_missing in commit.c). Then it is refused. */
enum { ATTEMPTS = 3 };

/* One refused call is not the end. Mapping takes memory, too: all that is idle goes back. A device
 * that cannot say what it has left is taken at its best. */
bool vm_ask_again(struct vm *vm, unsigned *attempts) {
    if (!vm_lacks_memory() || ++*attempts >= ATTEMPTS)
        return false;
    vm_give_up_behind(vm);
    vm_reclaim_now(vm, UINT64_MAX);
    struct room room = vm_room(vm, MEMINFO_ANEW);
    return vm_lacks_memory() &&
           (!room.total_bytes || room.free_bytes >= PAGE_BYTES || vm_may_spill(vm));
}
