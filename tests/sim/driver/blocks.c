/* The map from addresses to what the program owns there. It keeps records only: pages and address
 * space belong to whoever made the block. */
#include "memory.h"

#include <stdlib.h>

static struct { struct range *root; } blocks;

static struct block *as_block(struct range *range) {
    return (struct block *)range; /* The range is the first member. */
}

struct block *block_new(enum block_kind kind, uintptr_t base, size_t bytes) {
    struct block *block = calloc(1, sizeof *block);
    if (block == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    block->kind = kind;
    block->id = ++sim.last_id;
    block->at.base = base;
    block->at.size_bytes = bytes;
    ranges_insert(&blocks.root, &block->at);
    return block;
}

void block_delete(struct block *block) {
    ranges_remove(&blocks.root, &block->at);
    free(block);
}

struct block *block_find(uintptr_t address) {
    return as_block(ranges_find(blocks.root, address));
}

struct block *block_overlap(uintptr_t base, size_t bytes) {
    return as_block(ranges_overlap(blocks.root, base, bytes));
}

struct block *block_first(void) {
    return as_block(ranges_above(blocks.root, 0));
}

struct block *block_next(struct block *block) {
    return as_block(ranges_above(blocks.root, block->at.base));
}

bool block_is_host(const struct block *block) {
    return block->kind >= BLOCK_MANAGED;
}
