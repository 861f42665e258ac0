/* spare.c: memory that is made before a block asks for it, on the small driver of fake_driver.c. */
#include "threads.h"

/* How many calls of the driver it takes to use a block. */
static unsigned calls_for(uint64_t address, size_t npages) {
    unsigned calls = atomic_load(&fake.calls);
    MUST(vm_commit(test.vm, address, npages * PAGE_BYTES, false));
    return atomic_load(&fake.calls) - calls;
}

/* The next extent is made before a block asks for it: the block only maps and opens it, and another
 * one is due. Only a block that would have an extent of that size made takes it. It makes room
 * where all is full, and what nobody asks for goes in the end; while memory goes back none is made.
 */
void spare_piece(void) {
    enum { PIECE = 4, MAP_OPEN = 2, MAKE = 1, SOME = 24 };
    uint64_t range = range_of(SOME), next = range, piece_bytes = PIECE * PAGE_BYTES;
    uint64_t segment = vm_reserve(test.vm, SOME * PAGE_BYTES, 5);
    MUST(!vm_prefetch_wanted(test.vm) && !vm_prefetch(test.vm));
    MUST(calls_for(next, PIECE) == MAKE + MAP_OPEN);
    MUST(vm_prefetch_wanted(test.vm) && !vm_prefetch_wanted(test.vm));
    vm_decay(test.vm, SECOND_NS); /* our own thread looks, and gives nothing back */
    MUST(vm_prefetch(test.vm) && !vm_prefetch(test.vm) && test.vm->cached_count == PIECE);
    vm_prefetch_want(test.vm, PIECE); /* of which there is one by now */
    MUST(!vm_prefetch(test.vm));
    MUST(calls_for(segment, 1) == MAKE + MAP_OPEN && test.vm->cached_count == PIECE);
    MUST(vm_prefetch(test.vm) && test.vm->cached_count == PIECE + 1);
    MUST(calls_for(next += piece_bytes, PIECE) == MAP_OPEN && test.vm->cached_count == 1);
    MUST(vm_prefetch(test.vm) && test.vm->cached_count == PIECE + 1);
    MUST(calls_for(segment + PAGE_BYTES, 1) == MAP_OPEN && test.vm->cached_count == PIECE);
    for (uint64_t second = 10; second < 60; second += 10)
        vm_decay(test.vm, second * SECOND_NS);
    MUST(test.vm->cached_count == 0 && !vm_prefetch(test.vm));
    MUST(calls_for(next += piece_bytes, PIECE) == MAKE + MAP_OPEN);
    MUST(vm_prefetch(test.vm) && test.vm->cached_count == PIECE);
    fake.capacity = fake.pages_out;
    MUST(vm_commit(test.vm, segment + 2 * PAGE_BYTES, PAGE_BYTES, false) &&
         test.vm->cached_count == 0);
    test.vm->under_pressure = false;
    fake.capacity = LARGE_CAPACITY;
    fake.pages_elsewhere = 0;
    vm_mark_idle(test.vm, segment, 3 * PAGE_BYTES, true);
    vm_mark_idle(test.vm, range, 3 * piece_bytes, true);
    MUST(vm_unreserve(test.vm, segment));
    MUST(vm_detach(test.vm, range, SOME * PAGE_BYTES) && vm_range_end(test.vm, range));
}

/* Not where memory is short, nor above the threshold. */
void no_spare_piece(void) {
    enum { PAGES = 300, MORE = 110 };
    uint64_t first = segment_in_use(PAGES);
    MUST(vm_prefetch_wanted(test.vm) && vm_prefetch(test.vm));
    uint64_t second = segment_in_use(MORE);
    MUST(physical() > LARGE_CAPACITY / 2);
    MUST(!vm_prefetch_wanted(test.vm) && !vm_prefetch(test.vm));
    end_used(first, PAGES);
    end_used(second, MORE);
}

void short_spare_piece(void) {
    enum { PAGES = LARGE_CAPACITY - LARGE_CAPACITY / 16 };
    uint64_t first = segment_in_use(PAGES);
    MUST(!vm_prefetch_wanted(test.vm) && !vm_prefetch(test.vm));
    end_used(first, PAGES);
}

/* Our own thread gets the last page right before the block asks for it; */
static void come_before(void) {
    MUST(vm_prefetch(test.vm));
}

/* or is just getting it: the driver has it, and has not told. */
static void end_making(void) {
    test.vm->prefetching = 0;
    test.vm->landed++;
    fake.capacity++;
}

static void begin_making(void) {
    test.vm->prefetching = 1;
    fake.before_create = end_making;
}

static void end_making_soon(void) {
    fake.before_info = end_making;
}

/* The block has it all the same, and nobody is told meanwhile that it cannot be had. */
void late_spare_piece(void) {
    uint64_t segment = vm_reserve(test.vm, 2 * PAGE_BYTES, 5);
    fake.capacity = 1;
    vm_prefetch_want(test.vm, 1);
    fake.before_create = come_before;
    MUST(vm_commit(test.vm, segment, PAGE_BYTES, false) && physical() == 1);
    fake.before_create = begin_making;
    MUST(vm_commit(test.vm, segment + PAGE_BYTES, PAGE_BYTES, false) && physical() == 2);
    test.vm->prefetching = 1;
    fake.before_info = end_making_soon;
    MUST(vm_could_back(test.vm, PAGE_BYTES));
    MUST(!vm_could_back(test.vm, 2 * PAGE_BYTES));
    test.vm->prefetching = 1; /* in the parent of a forked child */
    vm_forget(test.vm);
    MUST(!vm_could_back(test.vm, 2 * PAGE_BYTES));
    end_used(segment, 2);
}
