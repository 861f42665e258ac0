/* Graphs and their nodes, and the memory that they allocate. See graph.h. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static void *get_bytes(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    return memory;
}

struct graph *graph_new(void) {
    struct graph *graph = get_bytes(sizeof *graph);
    graph->handle = handle_make(HANDLE_GRAPH, graph);
    graph->memory = get_bytes(sizeof *graph->memory);
    graph->memory->references = 1;
    return graph;
}

void graph_delete(struct graph *graph) {
    for (size_t i = 0; i < graph->count; i++) {
        handle_drop(graph->nodes[i]->handle);
        free(graph->nodes[i]->before);
        free(graph->nodes[i]);
    }
    memory_drop(graph->memory);
    handle_drop(graph->handle);
    free(graph->handle_list);
    free(graph->nodes);
    free(graph);
}

CUgraph graph_handle(const struct graph *graph) {
    return (CUgraph)graph->handle;
}

static void reserve_node(struct graph *graph) {
    if (graph->count < graph->capacity)
        return;
    graph->capacity = graph->capacity == 0 ? 64 : graph->capacity * 2;
    graph->nodes = realloc(graph->nodes, graph->capacity * sizeof *graph->nodes);
    if (graph->nodes == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
}

struct node *graph_add(struct graph *graph, const struct op *op, struct node *const *before,
                       size_t count) {
    struct node *node = get_bytes(sizeof *node);
    reserve_node(graph);
    node->handle = handle_make(HANDLE_NODE, node);
    node->graph = graph;
    node->op = *op;
    node->index = graph->count;
    node->before = get_bytes((count + 1) * sizeof *node->before);
    node->before_count = count;
    if (count > 0)
        memcpy(node->before, before, count * sizeof *node->before);
    graph->nodes[graph->count++] = node;
    return node;
}

bool graph_all_before(struct graph *graph, struct node *const *nodes, size_t count) {
    bool all = true;
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->reached = false;
    for (size_t i = 0; i < count; i++)
        nodes[i]->reached = true;
    for (size_t i = graph->count; i-- > 0;) {
        struct node *node = graph->nodes[i];
        all = all && node->reached;
        for (size_t k = 0; node->reached && k < node->before_count; k++)
            node->before[k]->reached = true;
    }
    return all;
}

const CUgraphNode *graph_node_handles(struct graph *graph, const struct frontier *frontier) {
    free(graph->handle_list);
    graph->handle_list = get_bytes((frontier->count + 1) * sizeof *graph->handle_list);
    for (size_t i = 0; i < frontier->count; i++)
        graph->handle_list[i] = (CUgraphNode)frontier->nodes[i]->handle;
    return graph->handle_list;
}

bool nodes_of(const CUgraphNode *handles, size_t count, struct frontier *frontier) {
    frontier->nodes = get_bytes((count + 1) * sizeof *frontier->nodes);
    frontier->count = count;
    for (size_t i = 0; i < count; i++) {
        frontier->nodes[i] = handle_get((uintptr_t)handles[i], HANDLE_NODE);
        if (frontier->nodes[i] == NULL) {
            free(frontier->nodes);
            return false;
        }
    }
    return true;
}

/* ---- memory of graphs ---- */

struct memory_set *memory_keep(struct memory_set *memory) {
    memory->references++;
    return memory;
}

void memory_drop(struct memory_set *memory) {
    if (--memory->references > 0)
        return;
    for (struct graph_memory *entry = memory->list, *next; entry != NULL; entry = next) {
        next = entry->next;
        entry->block->graph_memory = NULL;
        if (!entry->live) /* As documented, what a launch left allocated outlives the graph. */
            pool_free_after(entry->block, memory->marker);
        free(entry);
    }
    marker_drop(memory->marker);
    free(memory);
}

CUresult graph_allocate(struct stream *stream, size_t bytes, struct block **out) {
    struct capture *capture = stream->capture;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct pool *pool = stream->context->device->graph_pool;
    CUresult result = pool_allocate(pool, stream, bytes, out);
    if (result != CUDA_SUCCESS)
        return result;
    struct memory_set *memory = capture->graph->memory;
    struct graph_memory *entry = get_bytes(sizeof *entry);
    entry->block = *out;
    entry->next = memory->list;
    memory->list = entry;
    (*out)->graph_memory = entry;
    struct op op = {.kind = OP_POOL_ALLOC,
                    .touch = {.address = (*out)->at.base, .bytes = (*out)->at.size_bytes}};
    return capture_add(stream, &op);
}

static bool belongs(const struct memory_set *memory, const struct graph_memory *wanted) {
    const struct graph_memory *entry = memory->list;
    while (entry != NULL && entry != wanted)
        entry = entry->next;
    return entry != NULL;
}

CUresult graph_free(struct stream *stream, struct block *block) {
    struct graph_memory *entry = block->graph_memory;
    if (entry == NULL || !belongs(stream->capture->graph->memory, entry) || entry->freed_inside) {
        stream->capture->invalid = true;
        sim_fault("cuMemFreeAsync in a capturing stream of %#zx, which its graph did not allocate",
                  (size_t)block->at.base);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct op op = {.kind = OP_POOL_FREE,
                    .touch = {.address = block->at.base, .bytes = block->at.size_bytes}};
    CUresult result = capture_add(stream, &op);
    entry->freed_inside = result == CUDA_SUCCESS;
    return result;
}

bool graph_memory_free(struct block *block) {
    bool was_live = block->graph_memory->live;
    block->graph_memory->live = false;
    return was_live;
}

/* ---- attributes of a device's graph memory ---- */

CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    pool_trim(device->graph_pool, 0);
    END(CUDA_SUCCESS);
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                      void *value) {
    if (value == NULL || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    const struct pool *pool = device->graph_pool;
    const size_t values[] = {
        [CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] = pool->used,
        [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH] = pool->used_high,
        [CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] = pool->reserved,
        [CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH] = pool->reserved_high,
    };
    *(cuuint64_t *)value = values[attribute];
    END(CUDA_SUCCESS);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                      void *value) {
    bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    if (value == NULL || *(cuuint64_t *)value != 0 ||
        (!used && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    struct pool *pool = device->graph_pool;
    if (used)
        pool->used_high = pool->used;
    else
        pool->reserved_high = pool->reserved;
    END(CUDA_SUCCESS);
}
