/* directory.h: the segments of a heap in address order, for the question which of them an address
 * lies in. A sorted array in memory from mmap: there are few segments and they change rarely.
 * Takes no lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment;

struct directory_entry {
    uint64_t begin, end; /* [begin, end) */
    struct segment *segment;
};

/* All zero at the start. */
struct directory {
    struct directory_entry *entries;
    size_t count, capacity;
};

/* Makes sure that one more entry fits. False when out of memory. */
bool directory_reserve(struct directory *directory);

/* The segment that the address lies in, or NULL. */
struct segment *directory_find(const struct directory *directory, uint64_t address);

/* Whether [begin, end) shares a byte with any segment. */
bool directory_overlaps(const struct directory *directory, uint64_t begin, uint64_t end);

/* There must be room (directory_reserve) and no overlap. */
void directory_insert(struct directory *directory, struct directory_entry entry);

/* A segment must begin at the address. */
void directory_erase(struct directory *directory, uint64_t begin);

void directory_release(struct directory *directory);
