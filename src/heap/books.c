/* books.c: see books.h. Must not call malloc, directly or through libc. */
#include "heap/books.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Chunks begin small, with room for 1,024 blocks, and end at the size of a huge page,
 * which saves most of the address translation misses when there are a million blocks. */
#define NODES_FIRST_CHUNK_BYTES ((size_t)64 << 10)
#define NODES_HUGE_BYTES        ((size_t)2 << 20)

struct nodes_chunk {
    struct nodes_chunk *next;
    size_t bytes;
};

/* Cuts what is not aligned off a mapping that is one huge page too long. */
static void *trim_to_huge(char *memory, size_t bytes) {
    size_t before = (NODES_HUGE_BYTES - (uintptr_t)memory % NODES_HUGE_BYTES) % NODES_HUGE_BYTES;
    nodes_unmap(memory, before);
    nodes_unmap(memory + before + bytes, NODES_HUGE_BYTES - before);
    madvise(memory + before, bytes, MADV_HUGEPAGE);
    return memory + before;
}

void *nodes_map(size_t bytes) {
    size_t extra = bytes >= NODES_HUGE_BYTES ? NODES_HUGE_BYTES : 0;
    void *memory =
        mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    return extra ? trim_to_huge(memory, bytes) : memory;
}

void nodes_unmap(void *memory, size_t bytes) {
    if (bytes > 0)
        munmap(memory, bytes);
}

static size_t next_chunk_bytes(const struct nodes *nodes) {
    if (!nodes->chunks)
        return NODES_FIRST_CHUNK_BYTES;
    size_t doubled = 2 * nodes->chunks->bytes;
    return doubled < NODES_HUGE_BYTES ? doubled : NODES_HUGE_BYTES;
}

/* The few fresh nodes left in the old chunk join the list, so that fresh is one stretch. */
static void put_fresh_aside(struct nodes *nodes) {
    while (nodes->fresh < nodes->fresh_end) {
        *(void **)nodes->fresh = nodes->given_back;
        nodes->given_back = nodes->fresh;
        nodes->fresh += nodes->node_bytes;
    }
}

static bool add_chunk(struct nodes *nodes) {
    size_t bytes = next_chunk_bytes(nodes);
    struct nodes_chunk *chunk = nodes_map(bytes);
    if (!chunk)
        return false;
    put_fresh_aside(nodes);
    chunk->next = nodes->chunks;
    chunk->bytes = bytes;
    nodes->chunks = chunk;
    size_t count = (bytes - nodes->node_bytes) / nodes->node_bytes; /* the first holds the chunk */
    nodes->fresh = (char *)chunk + nodes->node_bytes;
    nodes->fresh_end = nodes->fresh + count * nodes->node_bytes;
    nodes->available += count;
    return true;
}

bool nodes_reserve(struct nodes *nodes, size_t count) {
    while (nodes->available < count)
        if (!add_chunk(nodes))
            return false;
    return true;
}

void nodes_release(struct nodes *nodes) {
    size_t node_bytes = nodes->node_bytes;
    while (nodes->chunks) {
        struct nodes_chunk *chunk = nodes->chunks;
        nodes->chunks = chunk->next;
        nodes_unmap(chunk, chunk->bytes);
    }
    *nodes = (struct nodes){.node_bytes = node_bytes};
}

/* ---- finding a run ---- */

/* Two pages of the host's memory; it doubles. */
#define TABLE_FIRST_CAPACITY ((size_t)1024)

/* Up to here there are twice as many buckets as runs, which makes for shorter chains; beyond, the
 * cache misses of a larger table would cost more: 256 KiB are the least second-level cache that a
 * core of x86-64 has had since 2008. */
#define TABLE_SPARSE_CAPACITY ((size_t)32768)

static void move_chain(struct table *to, struct run *run) {
    while (run) {
        struct run *next = run->chain;
        table_insert(to, run);
        run = next;
    }
}

static bool grow_to(struct table *table, size_t capacity) {
    struct table larger = {.capacity = capacity, .shift = 64 - (unsigned)__builtin_ctzll(capacity)};
    larger.buckets = nodes_map(capacity * sizeof(struct run *));
    if (!larger.buckets)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        move_chain(&larger, table->buckets[i]);
    table_release(table);
    *table = larger;
    return true;
}

static bool buckets_suffice(size_t count, size_t capacity) {
    return capacity > TABLE_SPARSE_CAPACITY ? count <= capacity : 2 * count <= capacity;
}

bool table_reserve(struct table *table, size_t count) {
    size_t needed = table->count + count;
    if (buckets_suffice(needed, table->capacity))
        return true;
    size_t capacity = table->capacity ? table->capacity : TABLE_FIRST_CAPACITY;
    while (!buckets_suffice(needed, capacity))
        capacity *= 2;
    return grow_to(table, capacity);
}

void table_release(struct table *table) {
    nodes_unmap(table->buckets, table->capacity * sizeof(struct run *));
    *table = (struct table){0};
}

/* ---- finding a segment ---- */

/* A page of the host's memory, nearly; it doubles. */
#define DIRECTORY_FIRST_CAPACITY ((size_t)128)

/* How many segments end at or before the address: the place of the first that could hold it. */
static size_t directory_place(const struct directory *directory, uint64_t address) {
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
    size_t place = directory_place(directory, address);
    if (place == directory->count || directory->entries[place].begin > address)
        return NULL;
    return directory->entries[place].segment;
}

bool directory_overlaps(const struct directory *directory, uint64_t begin, uint64_t end) {
    size_t place = directory_place(directory, begin);
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
    struct directory_entry *place = directory->entries + directory_place(directory, entry.begin);
    size_t behind = (size_t)(directory->entries + directory->count - place);
    memmove(place + 1, place, behind * sizeof *place);
    *place = entry;
    directory->count++;
}

void directory_erase(struct directory *directory, uint64_t begin) {
    struct directory_entry *place = directory->entries + directory_place(directory, begin);
    size_t behind = (size_t)(directory->entries + directory->count - place) - 1;
    memmove(place, place + 1, behind * sizeof *place);
    directory->count--;
}

void directory_release(struct directory *directory) {
    nodes_unmap(directory->entries, directory->capacity * sizeof *directory->entries);
    *directory = (struct directory){0};
}
