/* test_arena.c: the arena of a stream-ordered pool against a model that keeps for every 512 bytes
 * who has them, and which stream gave them back when. Operations are random, from several streams,
 * with blocks that are on their way out while others come and go, and with epochs that arrive in
 * another order than they were read in. */
#include "unit.h"

#include "vm/arena.h"

#include <stdlib.h>
#include <string.h>

enum { STREAMS = 5, BLOCKS = 220, OPERATIONS = 30000, GRAIN = 512, LARGE_MIB = 48, SMALL_MIB = 16 };
enum { CELLS = (LARGE_MIB + SMALL_MIB) * 2048, SMALL_FIRST = LARGE_MIB * 2048 };

#define BASE ((uint64_t)7 << 40)

struct cell {
    bool used;
    uint64_t giver; /* a stream, told apart from earlier ones of the same handle; 0: nobody */
    uint64_t epoch; /* when it was given back */
};

struct block {
    bool present, leaving;
    uint64_t address, cells, epoch;
    struct arena_block claimed;
};

static struct {
    struct arena *arena;
    struct cell cells[CELLS];
    struct block blocks[BLOCKS];
    uint64_t streams[STREAMS]; /* which one has the handle now */
    uint64_t next_stream, clock, fenced, seed;
    uint64_t refused, moved; /* that both happen at all is checked too */
} self;

/* xorshift64 (Marsaglia 2003). */
static uint64_t below(uint64_t limit) {
    self.seed ^= self.seed << 13;
    self.seed ^= self.seed >> 7;
    self.seed ^= self.seed << 17;
    return (self.seed >> 20) % limit;
}

static uint64_t handle_of(uint64_t stream) {
    return 0x1000 + stream * 16;
}

static void open_arena(uint64_t seed) {
    arena_close(self.arena ? self.arena : arena_open(BASE, 4 * MIB, 2 * MIB));
    memset(&self, 0, sizeof self);
    self.seed = seed;
    self.arena = arena_open(BASE, (uint64_t)CELLS * GRAIN, (uint64_t)SMALL_MIB * MIB);
    assert_non_null(self.arena);
    for (size_t i = 0; i < STREAMS; i++)
        self.streams[i] = ++self.next_stream;
}

static bool usable(const struct cell *cell, uint64_t stream) {
    return !cell->used && (cell->epoch <= self.fenced || cell->giver == stream);
}

/* Whether somewhere so many cells follow each other that the stream itself gave back last. */
static bool own_run(uint64_t first, uint64_t end, uint64_t cells, uint64_t stream) {
    uint64_t run = 0;
    for (uint64_t i = first; i < end && run < cells; i++) {
        const struct cell *cell = &self.cells[i];
        run = !cell->used && cell->epoch > self.fenced && cell->giver == stream ? run + 1 : 0;
    }
    return run >= cells;
}

/* Whether so many are free for everybody. */
static bool free_run(uint64_t first, uint64_t end, uint64_t cells) {
    uint64_t run = 0;
    for (uint64_t i = first; i < end && run < cells; i++)
        run = usable(&self.cells[i], 0) ? run + 1 : 0;
    return run >= cells;
}

static bool all_settled(void) {
    return self.fenced >= self.clock;
}

/* A refusal is right only if the address space really is not there. */
static void check_refusal(uint64_t bytes, uint64_t cells, uint64_t stream) {
    bool small = bytes <= ARENA_SMALL_BYTES;
    self.refused++;
    assert_false(own_run(0, SMALL_FIRST, cells, stream));
    assert_false(small && own_run(SMALL_FIRST, CELLS, cells, stream));
    assert_false(all_settled() && free_run(0, SMALL_FIRST, cells));
    assert_false(all_settled() && small && free_run(SMALL_FIRST, CELLS, cells));
}

static uint64_t random_bytes(void) {
    switch (below(4)) {
    case 0:
        return 1 + below(2000);
    case 1:
        return 1 + below(ARENA_SMALL_BYTES);
    case 2:
        return ARENA_SMALL_BYTES + 1 + below(6 * MIB);
    default:
        return 1 + below(20 * MIB);
    }
}

static void take(void) {
    struct block *block = &self.blocks[below(BLOCKS)];
    uint64_t stream = below(STREAMS), bytes = random_bytes(), cells = (bytes + GRAIN - 1) / GRAIN;
    if (block->present)
        return;
    struct arena_block taken = arena_take(self.arena, bytes, handle_of(stream));
    if (!taken.chunk) {
        check_refusal(bytes, cells, self.streams[stream]);
        return;
    }
    uint64_t address = taken.address, first = (address - BASE) / GRAIN;
    assert_int_equal(taken.bytes, cells * GRAIN);
    assert_true(address >= BASE && (address - BASE) % GRAIN == 0 && first + cells <= CELLS);
    assert_true(bytes <= ARENA_SMALL_BYTES || first + cells <= SMALL_FIRST);
    for (uint64_t i = first; i < first + cells; i++) {
        assert_true(usable(&self.cells[i], self.streams[stream]));
        self.moved += self.cells[i].giver && self.cells[i].giver != self.streams[stream];
        self.cells[i].used = true;
    }
    *block = (struct block){.present = true, .address = address, .cells = cells};
}

static void claim(void) {
    struct block *block = &self.blocks[below(BLOCKS)];
    if (!block->present || block->leaving)
        return;
    block->claimed = arena_claim(self.arena, block->address);
    assert_non_null(block->claimed.chunk);
    assert_int_equal(block->claimed.bytes, block->cells * GRAIN);
    assert_null(arena_claim(self.arena, block->address).chunk);
    block->leaving = true;
    block->epoch = ++self.clock;
}

static void give(struct block *block) {
    if (!block->present || !block->leaving)
        return;
    uint64_t stream = below(STREAMS + 1), first = (block->address - BASE) / GRAIN;
    bool nobody = stream == STREAMS;
    uint64_t epoch = below(2) ? block->epoch : self.clock; /* as late as it likes */
    arena_give(self.arena, &block->claimed, nobody ? STREAM_NONE : handle_of(stream), epoch);
    for (uint64_t i = first; i < first + block->cells; i++)
        self.cells[i] = (struct cell){false, nobody ? 0 : self.streams[stream], epoch};
    block->present = false;
}

static void settle(void) {
    uint64_t epoch = below(3) ? self.clock : self.fenced + below(self.clock - self.fenced + 1);
    if (below(6))
        return;
    /* A epoch that is read may be fenced before its block is given; never later than it is read. */
    self.fenced = epoch;
    arena_fence(self.arena, epoch);
}

static void stream_gone(void) {
    uint64_t stream = below(STREAMS);
    if (below(20))
        return;
    arena_stream_gone(self.arena, handle_of(stream));
    self.streams[stream] = ++self.next_stream;
}

static void check_figures(void) {
    struct arena_figures figures = arena_figures(self.arena);
    uint64_t used = 0, blocks = 0, pages = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        bool out = self.blocks[i].present && !self.blocks[i].leaving;
        blocks += out;
        used += out ? self.blocks[i].cells * GRAIN : 0;
    }
    for (uint64_t page = 0; page < CELLS / 4096; page++) {
        bool live = false;
        for (size_t i = 0; i < BLOCKS && !live; i++) {
            const struct block *block = &self.blocks[i];
            uint64_t first = (block->address - BASE) / GRAIN;
            live = block->present && !block->leaving && first < (page + 1) * 4096 &&
                   first + block->cells > page * 4096;
        }
        pages += live;
    }
    uint64_t foreign = 0;
    for (size_t i = 0; i < CELLS; i++)
        foreign += !self.cells[i].used && self.cells[i].epoch > self.fenced &&
                   self.cells[i].giver != self.streams[0];
    assert_true(arena_foreign_bytes(self.arena, handle_of(0)) >= foreign * GRAIN);
    assert_int_equal(figures.blocks, blocks);
    assert_int_equal(figures.used_bytes, used);
    assert_int_equal(figures.page_bytes, pages * PAGE_BYTES);
    assert_true(figures.used_high_bytes >= used && figures.page_high_bytes >= figures.page_bytes);
}

static void step(void) {
    switch (below(7)) {
    case 0:
    case 1:
    case 2:
        take();
        break;
    case 3:
        claim();
        break;
    case 4:
        give(&self.blocks[below(BLOCKS)]);
        break;
    case 5:
        settle();
        break;
    default:
        stream_gone();
    }
}

static void give_all(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *block = &self.blocks[i];
        if (block->present && !block->leaving)
            block->claimed = arena_claim(self.arena, block->address);
        block->leaving = block->present;
        block->epoch = self.clock;
        give(block);
    }
}

/* In the end it is one chunk for each part again: the largest requests fit. */
static void check_end(void) {
    give_all();
    arena_fence(self.arena, ++self.clock);
    assert_true(arena_is_valid(self.arena));
    assert_int_equal(arena_take(self.arena, LARGE_MIB * MIB, 3).address, BASE);
    assert_int_equal(arena_figures(self.arena).waiting_bytes, 0);
    for (int i = 0; i < SMALL_MIB; i++)
        assert_true(arena_take(self.arena, MIB, 3).address >= BASE + LARGE_MIB * MIB);
    assert_int_equal(arena_take(self.arena, 1, 3).address, 0);
}

static void random_operations(void **state) {
    uint64_t refused = 0, moved = 0, first = unit_seed(1);
    (void)state;
    for (uint64_t seed = first; seed < first + 6; seed++) {
        open_arena(seed * 0x9e3779b97f4a7c15);
        for (int i = 0; i < OPERATIONS; i++) {
            step();
            if (i % 16 == 0) {
                assert_true(arena_is_valid(self.arena));
                check_figures();
            }
        }
        refused += self.refused;
        moved += self.moved;
        check_end();
    }
    assert_true(refused > 100 && moved > 1000);
}

/* ---- single rules ---- */

static uint64_t take_of(uint64_t bytes, uint64_t stream) {
    uint64_t address = arena_take(self.arena, bytes, stream).address;
    assert_true(address != 0);
    return address;
}

static void give_of(uint64_t address, uint64_t stream, uint64_t epoch) {
    struct arena_block block = arena_claim(self.arena, address);
    assert_non_null(block.chunk);
    arena_give(self.arena, &block, stream, epoch);
    assert_true(arena_is_valid(self.arena));
}

static void best_fit(void **state) {
    uint64_t at[8];
    (void)state;
    open_arena(1);
    for (uint64_t i = 0; i < 8; i++)
        at[i] = take_of((i % 2 ? 2 : 3 + i) * MIB, 1);
    for (uint64_t i = 0; i < 8; i += 2)
        give_of(at[i], 1, 1 + i); /* holes of 3, 5, 7 and 9 MiB */
    assert_int_equal(take_of(5 * MIB - 100, 1), at[2]);
    assert_int_equal(take_of(6 * MIB, 1), at[4]);
    arena_fence(self.arena, 10);
    assert_int_equal(take_of(8 * MIB, 2), at[6]);
    assert_int_equal(take_of(3 * MIB, 2), at[0]);
}

static void same_stream_at_once_others_when_settled(void **state) {
    (void)state;
    open_arena(1);
    uint64_t a = take_of(30 * MIB, 1);
    give_of(a, 2, 5);
    assert_int_equal(arena_take(self.arena, 30 * MIB, 1).address, 0);
    arena_fence(self.arena, 4);
    assert_int_equal(arena_take(self.arena, 30 * MIB, 1).address, 0);
    assert_int_equal(take_of(30 * MIB, 2), a);
    give_of(a, 2, 6);
    arena_fence(self.arena, 6);
    assert_int_equal(take_of(30 * MIB, 1), a);
    give_of(a, STREAM_NONE, 7);
    assert_int_equal(arena_take(self.arena, 30 * MIB, STREAM_NONE).address, 0);
    give_of(take_of(10 * MIB, STREAM_NONE), 1, 8);
    arena_fence(self.arena, 8);
    assert_int_equal(take_of(30 * MIB, STREAM_NONE), a);
}

/* The later epoch counts for both, whichever comes first. */
static void joined_pieces_keep_the_stricter_rule(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        open_arena(1);
        uint64_t a = take_of(15 * MIB, 1), b = take_of(15 * MIB, 1);
        struct arena_block blocks[] = {arena_claim(self.arena, a), arena_claim(self.arena, b)};
        arena_give(self.arena, &blocks[order], 1, 9);
        arena_give(self.arena, &blocks[!order], 1, 8);
        arena_fence(self.arena, 8);
        assert_int_equal(arena_take(self.arena, 20 * MIB, 2).address, 0);
        assert_int_equal(take_of(30 * MIB, 1), a);
    }
}

/* Read before another thread's fence, an epoch may be over when its block is given back. */
static void a_piece_joins_all_that_it_can(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        open_arena(1);
        uint64_t at[4];
        for (int i = 0; i < 4; i++)
            at[i] = take_of(5 * MIB, 1);
        take_of(5 * MIB, 1);
        arena_fence(self.arena, 4);
        give_of(at[1 + order], 1, 5);
        give_of(at[2 - order], 1, 4); /* free at once, beside the one that waits */
        give_of(at[order ? 3 : 0], 1, 6);
        give_of(at[order ? 0 : 3], 1, 7);
        assert_true(arena_is_valid(self.arena));
        assert_int_equal(take_of(20 * MIB, 1), at[0]);
    }
}

static void a_new_stream_with_an_old_handle_is_another(void **state) {
    (void)state;
    open_arena(1);
    uint64_t a = take_of(40 * MIB, 1);
    give_of(a, 1, 3);
    arena_stream_gone(self.arena, 1);
    assert_int_equal(arena_take(self.arena, 40 * MIB, 1).address, 0);
    arena_fence(self.arena, 3);
    assert_int_equal(take_of(40 * MIB, 1), a);
}

/* What others need of the rest of the range is not taken along by one who waits. */
static void the_rest_of_the_range_stays_free(void **state) {
    (void)state;
    open_arena(1);
    uint64_t a = take_of(10 * MIB, 1);
    give_of(a, 1, 3);
    assert_int_equal(take_of(38 * MIB, 2), a + 10 * MIB);
}

/* Where the stream's own last chunk is too small, it gets longer: a part of its pages is there. */
static void a_piece_at_the_edge_grows_into_the_rest(void **state) {
    (void)state;
    open_arena(1);
    uint64_t hole = take_of(3 * MIB, 1);
    take_of(2 * MIB, 1);
    uint64_t edge = take_of(10 * MIB, 1);
    give_of(edge, 1, 3);
    assert_int_equal(take_of(4 * MIB, 2), edge + 10 * MIB); /* not another's */
    give_of(edge + 10 * MIB, 1, 4);
    assert_int_equal(take_of(20 * MIB, 1), edge);
    assert_int_equal(take_of(2 * MIB, 2), edge + 20 * MIB);
    assert_true(arena_is_valid(self.arena));
    give_of(edge + 20 * MIB, STREAM_NONE, 5);
    assert_int_equal(take_of(4 * MIB, STREAM_NONE), edge + 22 * MIB); /* nobody's waits */
    give_of(hole, 2, 6);
    arena_fence(self.arena, 6);
    give_of(edge + 22 * MIB, 1, 7);
    assert_int_equal(take_of(4 * MIB, 1),
                     edge + 20 * MIB);           /* of 6 MiB, with what was free before */
    assert_int_equal(take_of(3 * MIB, 1), hole); /* one that fits comes first */
    assert_true(arena_is_valid(self.arena));
}

static void more_streams_than_can_be_told_apart(void **state) {
    (void)state;
    open_arena(1);
    for (uint64_t stream = 0; stream < 300; stream++) {
        uint64_t a = take_of(100, 1000 + stream);
        take_of(100, 1);
        give_of(a, 1000 + stream, 1 + stream);
    }
    arena_fence(self.arena, 150);
    for (uint64_t stream = 0; stream < 300; stream++)
        give_of(take_of(100, 2000 + stream), 2000 + stream, 301 + stream);
    arena_fence(self.arena, 1000);
    assert_int_equal(arena_figures(self.arena).waiting_bytes, 0);
}

static void small_ones_apart(void **state) {
    (void)state;
    open_arena(1);
    assert_int_equal(take_of(2 * MIB, 1), BASE);
    for (int i = 0; i < SMALL_MIB; i++)
        assert_true(take_of(MIB, 1) >= BASE + LARGE_MIB * MIB);
    assert_int_equal(take_of(MIB, 1), BASE + 2 * MIB); /* their part is full */
}

static void high_marks(void **state) {
    (void)state;
    open_arena(1);
    uint64_t a = take_of(3 * MIB, 1), b = take_of(5 * MIB, 1);
    give_of(a, 1, 1);
    assert_int_equal(arena_figures(self.arena).used_high_bytes, 8 * MIB);
    assert_int_equal(arena_figures(self.arena).page_high_bytes, 8 * MIB);
    arena_reset_high(self.arena, true, false);
    assert_int_equal(arena_figures(self.arena).used_high_bytes, 5 * MIB);
    assert_int_equal(arena_figures(self.arena).page_high_bytes, 8 * MIB);
    arena_reset_high(self.arena, false, true);
    assert_int_equal(arena_figures(self.arena).page_high_bytes,
                     6 * MIB); /* b begins in the midst of one */
    give_of(b, 1, 2);
    assert_int_equal(arena_figures(self.arena).page_bytes, 0);
}

static void senseless(void **state) {
    (void)state;
    open_arena(1);
    assert_int_equal(arena_take(self.arena, 0, 1).address, 0);
    assert_int_equal(arena_take(self.arena, UINT64_MAX, 1).address, 0);
    assert_int_equal(arena_take(self.arena, (LARGE_MIB + 1) * MIB, 1).address, 0);
    uint64_t a = take_of(3 * MIB, 1);
    assert_null(arena_claim(self.arena, a + GRAIN).chunk);
    assert_null(arena_claim(self.arena, 12).chunk);
    assert_null(arena_claim(self.arena, a + 3 * MIB).chunk);
    assert_null(arena_claim(self.arena, BASE - 1).chunk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(best_fit),
        cmocka_unit_test(same_stream_at_once_others_when_settled),
        cmocka_unit_test(joined_pieces_keep_the_stricter_rule),
        cmocka_unit_test(a_piece_joins_all_that_it_can),
        cmocka_unit_test(a_new_stream_with_an_old_handle_is_another),
        cmocka_unit_test(the_rest_of_the_range_stays_free),
        cmocka_unit_test(a_piece_at_the_edge_grows_into_the_rest),
        cmocka_unit_test(more_streams_than_can_be_told_apart),
        cmocka_unit_test(small_ones_apart),
        cmocka_unit_test(high_marks),
        cmocka_unit_test(senseless),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
