/* directory.c: see directory.h. Must not call malloc, directly or through libc. */
#include "heap/directory.h"

#include "heap/nodes.h"

#include <string.h>

/* A page of the host's memory, nearly; it doubles. */
#define DIRECTORY_FIRST_CAPACITY ((size_t)128)

/* How many segments end at or before the address: the place of the first that could hold it. */
static size_t place_of(const struct directory *directory, uint64_t address) {
    size_t low = 0;
    size_t high = directory->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (directory->entries[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct segment *directory_find(const struct directory *directory, uint64_t address) {
    size_t place = place_of(directory, address);
    if (place == directory->count || directory->entries[place].begin > address)
        return NULL;
    return directory->entries[place].segment;
}

bool directory_overlaps(const struct directory *directory, uint64_t begin, uint64_t end) {
    size_t place = place_of(directory, begin);
    return place < directory->count && directory->entries[place].begin < end;
}

bool directory_reserve(struct directory *directory) {
    if (directory->count < directory->capacity)
        return true;
    size_t capacity = directory->capacity ? 2 * directory->capacity : DIRECTORY_FIRST_CAPACITY;
    struct directory_entry *entries = nodes_map(capacity * sizeof *entries);
    if (!entries)
        return false;
    size_t count = directory->count;
    if (count > 0)
        memcpy(entries, directory->entries, count * sizeof *entries);
    directory_release(directory);
    *directory = (struct directory){entries, count, capacity};
    return true;
}

void directory_insert(struct directory *directory, struct directory_entry entry) {
    struct directory_entry *place = directory->entries + place_of(directory, entry.begin);
    size_t behind = (size_t)(directory->entries + directory->count - place);
    memmove(place + 1, place, behind * sizeof *place);
    *place = entry;
    directory->count++;
}

void directory_erase(struct directory *directory, uint64_t begin) {
    struct directory_entry *place = directory->entries + place_of(directory, begin);
    size_t behind = (size_t)(directory->entries + directory->count - place) - 1;
    memmove(place, place + 1, behind * sizeof *place);
    directory->count--;
}

void directory_release(struct directory *directory) {
    nodes_unmap(directory->entries, directory->capacity * sizeof *directory->entries);
    *directory = (struct directory){0};
}
