/* nodes.c: see nodes.h. Must not call malloc, directly or through libc. */
#include "heap/nodes.h"

#include <stdint.h>
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
