/* nodes.h: memory for the books of a heap: nodes of one size, cut from chunks that come straight
 * from mmap. The host's malloc must never be entered from here: it may be what called us. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct nodes_chunk;

/* All zero but node_bytes at the start. Takes no lock. */
struct nodes {
    size_t node_bytes; /* a multiple of 16 */
    size_t available;  /* nodes that nodes_take can hand out without asking the system */
    size_t used;       /* nodes handed out and not given back */
    void *given_back;  /* list through the first word of each node */
    char *fresh;       /* never used: [fresh, fresh_end) */
    char *fresh_end;
    struct nodes_chunk *chunks;
};

/* Pages from the system, zeroed, and their way back. NULL when there are none. */
void *nodes_map(size_t bytes);
void nodes_unmap(void *memory, size_t bytes);

/* Makes sure that the next `count` calls of nodes_take cannot fail. False when out of memory. */
bool nodes_reserve(struct nodes *nodes, size_t count);

/* A node with undefined contents; nodes_reserve must have promised it. */
static inline void *nodes_take(struct nodes *nodes) {
    void *node = nodes->given_back;
    if (node) {
        nodes->given_back = *(void **)node;
    } else {
        node = nodes->fresh;
        nodes->fresh += nodes->node_bytes;
    }
    nodes->available--;
    nodes->used++;
    return node;
}

static inline void nodes_give(struct nodes *nodes, void *node) {
    *(void **)node = nodes->given_back;
    nodes->given_back = node;
    nodes->available++;
    nodes->used--;
}

/* Returns all memory to the system; every node is gone. */
void nodes_release(struct nodes *nodes);
