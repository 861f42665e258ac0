/* decay.c: giving back what nobody has wanted for a while. Nobody may be held up by it: whoever
 * needs a page that is just being unmapped waits for a few others only. */
#include "vm/vm_internal.h"

/* Extents unmapped at once: in the worst case as many calls of the driver, some 25 us each. Where
 * time is limited, fewer at first, and then as many as will end in time. */
enum { FEW = 8, FIRST = 2 };

struct vm_age vm_age(struct vm *vm) {
    lock_take(&vm->lock);
    struct vm_age age = {vm->table.epoch, vm->cached_count};
    lock_give(&vm->lock);
    return age;
}

/* One batch after another, each of so many extents; end_ns 0: as long as it takes. */
struct batches {
    uint64_t begun_ns, end_ns;
    size_t extents;
};

static struct batches batches_in(uint64_t budget_ns) {
    uint64_t now = budget_ns ? clock_ns() : 0;
    return (struct batches){now, now + budget_ns, budget_ns ? FIRST : FEW};
}

/* Whether there is time for another one like the latest; it is larger if there is time for that. */
static bool next_batch(struct batches *batches) {
    if (!batches->end_ns)
        return true;
    uint64_t now = clock_ns(), took_ns = now - batches->begun_ns;
    uint64_t left_ns = minus_u64(batches->end_ns, now);
    batches->begun_ns = now;
    if (2 * took_ns <= left_ns && 2 * batches->extents <= BATCH)
        batches->extents *= 2;
    return took_ns < left_ns;
}

size_t vm_decommit_decayed(struct vm *vm, uint64_t epoch, size_t want, size_t extents) {
    struct page *list[BATCH];
    lock_take(&vm->lock);
    size_t count = page_table_victims_idle_since(&vm->table, epoch, want, list, extents);
    vm_victims_picked(vm, list, count);
    lock_give(&vm->lock);
    return vm_unmap(vm, list, count);
}

uint64_t vm_reclaim_decayed(struct vm *vm, uint64_t bytes, struct vm_age age, uint64_t budget_ns) {
    size_t want = bytes / PAGE_BYTES, given = 0, batch;
    vm_fence_poll(vm, !budget_ns);
    lock_take(&vm->lock);
    size_t cached = min_u64(vm->cached_count, age.cached);
    lock_give(&vm->lock);
    struct batches batches = batches_in(budget_ns);
    do {
        size_t next = min_u64(want - given, batches.extents);
        batch = given < cached ? min_u64(next, cached - given)
                               : vm_decommit_decayed(vm, age.epoch, want - given, batches.extents);
        batch = vm_cache_trim(vm, batch, 0);
        given += batch;
    } while (batch && given < want && next_batch(&batches));
    vm_sweep(vm);
    return given * PAGE_BYTES;
}
