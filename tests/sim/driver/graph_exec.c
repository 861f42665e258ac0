/* Executable graphs: a launch submits the operations of the graph to a stream, one after the other,
 * which is one of the orders that their dependencies allow. Also what can be asked about a graph.
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct graph_exec {
    struct op *ops;
    size_t count;
    unsigned long long flags, id;
    struct memory_set *memory;
};

static struct graph *graph_of(CUgraph handle) {
    struct graph *graph = handle_get((uintptr_t)handle, HANDLE_GRAPH);
    if (graph == NULL)
        sim_fault("graph %p does not exist", (void *)handle);
    return graph;
}

static struct graph_exec *exec_of(CUgraphExec handle) {
    struct graph_exec *exec = handle_get((uintptr_t)handle, HANDLE_GRAPH_EXEC);
    if (exec == NULL)
        sim_fault("executable graph %p does not exist", (void *)handle);
    return exec;
}

/* ---- graphs ---- */

CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    *out = graph_handle(graph_new());
    END(CUDA_SUCCESS);
}

CUresult cuGraphDestroy(CUgraph handle) {
    BEGIN(NEED_INIT);
    struct graph *graph = graph_of(handle);
    if (graph == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    graph_delete(graph);
    END(CUDA_SUCCESS);
}

static CUgraphNodeType type_of(const struct node *node) {
    switch (node->op.kind) {
    case OP_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case OP_FILL:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case OP_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case OP_WRITE_VALUE:
    case OP_WAIT_VALUE:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case OP_POOL_ALLOC:
        return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case OP_POOL_FREE:
        return CU_GRAPH_NODE_TYPE_MEM_FREE;
    default:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    }
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type) {
    if (type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct node *node = handle_get((uintptr_t)handle, HANDLE_NODE);
    if (node == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    *type = type_of(node);
    END(CUDA_SUCCESS);
}

/* As documented: without an array only the number is given; a longer array is filled with null. */
static void give_nodes(CUgraphNode *out, size_t *count, struct node *const *nodes, size_t have) {
    for (size_t i = 0; out != NULL && i < *count; i++)
        out[i] = i < have ? (CUgraphNode)nodes[i]->handle : NULL;
    if (out == NULL || *count > have)
        *count = have;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct graph *graph = graph_of(handle);
    if (graph == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    give_nodes(nodes, count, graph->nodes, graph->count);
    END(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode *nodes,
                                       CUgraphEdgeData *edges, size_t *count) {
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct node *node = handle_get((uintptr_t)handle, HANDLE_NODE);
    if (node == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    if (edges != NULL)
        memset(edges, 0, *count * sizeof *edges);
    give_nodes(nodes, count, node->before, node->before_count);
    END(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode *nodes, size_t *count) {
    return cuGraphNodeGetDependencies_v2(handle, nodes, NULL, count);
}

/* ---- executables ---- */

static CUresult instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags) {
    BEGIN(NEED_CONTEXT);
    struct graph *graph = graph_of(handle);
    if (graph == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    struct graph_exec *exec = calloc(1, sizeof *exec);
    struct op *ops = calloc(graph->count + 1, sizeof *ops);
    if (exec == NULL || ops == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    for (size_t i = 0; i < graph->count; i++)
        ops[i] = graph->nodes[i]->op;
    *exec =
        (struct graph_exec){ops, graph->count, flags, ++sim.last_id, memory_keep(graph->memory)};
    *out = (CUgraphExec)handle_make(HANDLE_GRAPH_EXEC, exec);
    END(CUDA_SUCCESS);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & ~known) != 0)
        return CUDA_ERROR_NOT_SUPPORTED; /* Launches from the device are not simulated. */
    return instantiate(out, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    params->hErrNode_out = NULL;
    CUresult result = cuGraphInstantiateWithFlags(out, graph, params->flags);
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log,
                               size_t log_bytes) {
    if (error_node != NULL)
        *error_node = NULL;
    if (log != NULL && log_bytes > 0)
        log[0] = '\0';
    return cuGraphInstantiateWithFlags(out, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log,
                            size_t log_bytes) {
    return cuGraphInstantiate_v2(out, graph, error_node, log, log_bytes);
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
    BEGIN(NEED_INIT);
    struct graph_exec *exec = exec_of(handle);
    if (exec == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    memory_drop(exec->memory);
    handle_drop((uintptr_t)handle);
    free(exec->ops);
    free(exec);
    END(CUDA_SUCCESS);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags) {
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct graph_exec *exec = exec_of(handle);
    if (exec == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    END(CUDA_SUCCESS);
}

/* Memory that an earlier launch allocated must have been freed before the next. */
static CUresult allocate_memory(struct graph_exec *exec) {
    bool auto_free = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    for (struct graph_memory *entry = exec->memory->list; entry != NULL; entry = entry->next)
        if (entry->live && !auto_free) {
            sim_fault("cuGraphLaunch while memory of an earlier launch at %#zx is not freed",
                      (size_t)entry->block->at.base);
            return CUDA_ERROR_INVALID_VALUE;
        }
    for (struct graph_memory *entry = exec->memory->list; entry != NULL; entry = entry->next)
        entry->live = !entry->freed_inside;
    return CUDA_SUCCESS;
}

/* Launches of what shares memory run one after the other, in whatever streams they are. */
static CUresult follow_last(struct graph_exec *exec, struct stream *stream) {
    struct marker *last = exec->memory->marker;
    if (last == NULL || last->done || stream->capture != NULL)
        return CUDA_SUCCESS;
    struct op op = {.kind = OP_WAIT, .marker = marker_keep(last)};
    return queue_submit(stream, &op, 0);
}

static CUresult launch(struct graph_exec *exec, struct stream *stream) {
    CUresult result = allocate_memory(exec);
    if (result == CUDA_SUCCESS)
        result = follow_last(exec, stream);
    for (size_t i = 0; i < exec->count && result == CUDA_SUCCESS; i++)
        result = queue_submit(stream, &exec->ops[i], cost_ns(COST_LAUNCH, 0));
    if (result != CUDA_SUCCESS || stream->capture != NULL)
        return result;
    struct op mark = {.kind = OP_MARK, .marker = marker_new(stream)};
    marker_drop(exec->memory->marker);
    exec->memory->marker = marker_keep(mark.marker);
    return queue_submit(stream, &mark, 0);
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
    BEGIN(NEED_CONTEXT);
    struct graph_exec *exec = exec_of(handle);
    struct stream *stream = stream_of(stream_handle);
    if (exec == NULL || stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    END(launch(exec, stream));
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
    BEGIN(NEED_CONTEXT);
    bool known = exec_of(handle) != NULL && stream_of(stream_handle) != NULL;
    END(known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}
