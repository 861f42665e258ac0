/* spare.c: memory that is made before a block asks for it, on the small driver of fake_driver.c. */
#include "threads.h"

/* How many calls of the driver it takes to use a block. */
static unsigned calls_for(uint64_t address, size_t pages) {
    unsigned calls = atomic_load(&fake.calls);
    MUST(pages_use(test.pages, address, pages * PAGE_BYTES, false));
    return atomic_load(&fake.calls) - calls;
}

/* The next piece is made before a block asks for it: the block only maps and opens it, and another
 * one is due. Only a block that would have a piece of that size made takes it. It makes room where
 * all is full, and what nobody asks for goes in the end; while memory goes back none is made. */
void spare_piece(void) {
    enum { PIECE = 4, MAP_OPEN = 2, MAKE = 1, SOME = 24 };
    uint64_t range = range_of(SOME), next = range, piece_bytes = PIECE * PAGE_BYTES;
    uint64_t segment = pages_segment(test.pages, SOME * PAGE_BYTES, 5);
    MUST(!pages_wants_spare(test.pages) && !pages_make_spare(test.pages));
    MUST(calls_for(next, PIECE) == MAKE + MAP_OPEN);
    MUST(pages_wants_spare(test.pages) && !pages_wants_spare(test.pages));
    pages_expire(test.pages, SECOND_NS); /* our own thread looks, and gives nothing back */
    MUST(pages_make_spare(test.pages) && !pages_make_spare(test.pages) &&
         test.pages->kept_count == PIECE);
    pages_want_spare(test.pages, PIECE); /* of which there is one by now */
    MUST(!pages_make_spare(test.pages));
    MUST(calls_for(segment, 1) == MAKE + MAP_OPEN && test.pages->kept_count == PIECE);
    MUST(pages_make_spare(test.pages) && test.pages->kept_count == PIECE + 1);
    MUST(calls_for(next += piece_bytes, PIECE) == MAP_OPEN && test.pages->kept_count == 1);
    MUST(pages_make_spare(test.pages) && test.pages->kept_count == PIECE + 1);
    MUST(calls_for(segment + PAGE_BYTES, 1) == MAP_OPEN && test.pages->kept_count == PIECE);
    for (uint64_t second = 10; second < 60; second += 10)
        pages_expire(test.pages, second * SECOND_NS);
    MUST(test.pages->kept_count == 0 && !pages_make_spare(test.pages));
    MUST(calls_for(next += piece_bytes, PIECE) == MAKE + MAP_OPEN);
    MUST(pages_make_spare(test.pages) && test.pages->kept_count == PIECE);
    fake.capacity = fake.pages_out;
    MUST(pages_use(test.pages, segment + 2 * PAGE_BYTES, PAGE_BYTES, false) &&
         test.pages->kept_count == 0);
    test.pages->scarce = false;
    fake.capacity = LARGE_CAPACITY;
    fake.pages_elsewhere = 0;
    pages_leave(test.pages, segment, 3 * PAGE_BYTES, true);
    pages_leave(test.pages, range, 3 * piece_bytes, true);
    MUST(pages_end(test.pages, segment));
    MUST(pages_revoke(test.pages, range, SOME * PAGE_BYTES) && pages_range_end(test.pages, range));
}

/* Not where memory is short, nor above the threshold. */
void no_spare_piece(void) {
    enum { PAGES = 300, MORE = 110 };
    uint64_t first = segment_in_use(PAGES);
    MUST(pages_wants_spare(test.pages) && pages_make_spare(test.pages));
    uint64_t second = segment_in_use(MORE);
    MUST(physical() > LARGE_CAPACITY / 2);
    MUST(!pages_wants_spare(test.pages) && !pages_make_spare(test.pages));
    end_used(first, PAGES);
    end_used(second, MORE);
}

void short_spare_piece(void) {
    enum { PAGES = LARGE_CAPACITY - LARGE_CAPACITY / 16 };
    uint64_t first = segment_in_use(PAGES);
    MUST(!pages_wants_spare(test.pages) && !pages_make_spare(test.pages));
    end_used(first, PAGES);
}

/* Our own thread gets the last page right before the block asks for it; */
static void come_before(void) {
    MUST(pages_make_spare(test.pages));
}

/* or is just getting it: the driver has it, and has not told. */
static void end_making(void) {
    test.pages->making = 0;
    test.pages->moved++;
    fake.capacity++;
}

static void begin_making(void) {
    test.pages->making = 1;
    fake.before_create = end_making;
}

static void end_making_soon(void) {
    fake.before_info = end_making;
}

/* The block has it all the same, and nobody is told meanwhile that it cannot be had. */
void late_spare_piece(void) {
    uint64_t segment = pages_segment(test.pages, 2 * PAGE_BYTES, 5);
    fake.capacity = 1;
    pages_want_spare(test.pages, 1);
    fake.before_create = come_before;
    MUST(pages_use(test.pages, segment, PAGE_BYTES, false) && physical() == 1);
    fake.before_create = begin_making;
    MUST(pages_use(test.pages, segment + PAGE_BYTES, PAGE_BYTES, false) && physical() == 2);
    test.pages->making = 1;
    fake.before_info = end_making_soon;
    MUST(pages_could_back(test.pages, PAGE_BYTES));
    MUST(!pages_could_back(test.pages, 2 * PAGE_BYTES));
    test.pages->making = 1; /* in the parent of a forked child */
    pages_forget(test.pages);
    MUST(!pages_could_back(test.pages, 2 * PAGE_BYTES));
    end_used(segment, 2);
}
