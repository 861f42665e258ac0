/* Graphs, as far as stream capture makes and cuGraphLaunch replays them. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "capture.h"
#include "pool.h"

/* Memory that a graph allocates. Its address and, simpler than on a card, its pages belong to the
 * graph from capture until the graph and all its executables are gone. */
struct graph_memory {
    struct graph_memory *next;
    struct block *block;
    bool freed_inside; /* The graph has a free node for it. */
    bool live;         /* A launch has allocated it and nothing has freed it. */
};

struct memory_set {
    unsigned references;
    struct graph_memory *list;
    struct marker *marker; /* End of the last launch. */
};

struct node {
    uintptr_t handle;
    struct graph *graph;
    struct op op;
    struct node **before; /* What it depends on. */
    size_t before_count, index;
    bool reached;
};

struct graph {
    uintptr_t handle;
    struct node **nodes; /* In an order that respects dependencies. */
    size_t count, capacity;
    CUgraphNode *handle_list; /* Last answer of graph_node_handles. */
    struct memory_set *memory;
};

struct graph *graph_new(void);
void graph_delete(struct graph *graph);
CUgraph graph_handle(const struct graph *graph);
struct node *graph_add(struct graph *graph, const struct op *op, struct node *const *before,
                       size_t count);
/* Does every node come before (or belong to) the given ones? */
bool graph_all_before(struct graph *graph, struct node *const *nodes, size_t count);
/* The handles of a set of nodes, valid until the next such call for the graph. */
const CUgraphNode *graph_node_handles(struct graph *graph, const struct frontier *frontier);
/* Looks handles up; false if one is unknown. The caller frees frontier->nodes. */
bool nodes_of(const CUgraphNode *handles, size_t count, struct frontier *frontier);

/* cuMemAllocAsync and cuMemFreeAsync in a capturing stream: nodes of the graph. */
CUresult graph_allocate(struct stream *stream, size_t bytes, struct block **out);
CUresult graph_free(struct stream *stream, struct block *block);
/* A free, outside of graphs, of what a graph launch allocated; false if it is not live. */
bool graph_memory_free(struct block *block);
struct memory_set *memory_keep(struct memory_set *memory);
void memory_drop(struct memory_set *memory);

#endif
