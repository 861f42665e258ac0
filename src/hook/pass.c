/* pass.c: the wrappers that only count and pass on, and those of a step of comfy-aimdo's, which
 * only tell of it. They must change nothing. */
#include "hook/hook.h"
#include "track/alloc.h"
#include "track/process_state.h"

#define HOOK(library, result, symbol, parameters, arguments)
#define PASS(library, result, symbol, parameters, arguments)                                       \
    result symbol parameters {                                                                     \
        real_##symbol##_t real = REAL_##library(symbol);                                           \
        if (hook_enter(ID_##symbol))                                                               \
            call_unaccounted();                                                                    \
        result r = real ? real arguments : MISSING_##library;                                      \
        hook_leave();                                                                              \
        return r;                                                                                  \
    }
#define ASK(library, result, symbol, parameters, arguments)                                        \
    result symbol parameters {                                                                     \
        real_##symbol##_t real = REAL_##library(symbol);                                           \
        if (LIKELY(!parked_at_rest()))                                                             \
            return real ? real arguments : MISSING_##library;                                      \
        uint64_t *asking = parked_question_begins();                                               \
        result r = real ? real arguments : MISSING_##library;                                      \
        parked_question_ends(asking);                                                              \
        return r;                                                                                  \
    }
#define NEED(library, result, symbol, parameters, arguments)
#include "hooks.def"

/* Stacks, the heap of kernels and the like; the later ones are of caches. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    real_cuCtxSetLimit_t real = REAL(cuCtxSetLimit);
    bool outermost = hook_enter(ID_cuCtxSetLimit);
    CUresult result = real ? real(limit, value) : MISSING_CUDA;
    if (outermost && result == CUDA_SUCCESS && limit <= CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT)
        call_unaccounted();
    hook_leave();
    return result;
}

/* Of all nodes only one takes memory. */
#define ADD_NODE(api, symbol, ...)                                                                 \
    real_##symbol##_t real = REAL(symbol);                                                         \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    CUresult result = real ? real(made, g, d, __VA_ARGS__) : MISSING_CUDA;                         \
    if (outermost && result == CUDA_SUCCESS && a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)            \
        call_unaccounted();                                                                        \
    hook_leave();                                                                                  \
    return result

WRAP(ADD_NODE, CUDA, cuGraphAddNode,
     (CUgraphNode * made, CUgraph g, const CUgraphNode *d, size_t n, CUgraphNodeParams *a), n, a)
WRAP(ADD_NODE, CUDA, cuGraphAddNode_v2,
     (CUgraphNode * made, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n,
      CUgraphNodeParams *a),
     e, n, a)
/* CUDA 13.4 */
WRAP(ADD_NODE, CUDA, cuGraphAddNode_v3,
     (CUgraphNode * made, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n,
      CUgraphNodeParams *a),
     e, n, a)
/* --- comfy-aimdo, ComfyUI's DynamicVRAM, records the allocations of a model's step and replays
 * them. Of each part it tells how many tensors outlived it ("rogues"), and whether it went as
 * recorded, but no names. It is asked nothing that its Python does not ask. --- */

enum { POP_BROKEN = 2, STAT_ROGUES = 3 };

bool malloc_graph_push(void *graph, const char *part) {
    real_malloc_graph_push_t real = REAL(malloc_graph_push);
    call_made(ID_malloc_graph_push);
    bool begun = real && real(graph, part);
    if (begun)
        alloc_step_begins();
    return begun;
}

int malloc_graph_pop(void *graph) {
    real_malloc_graph_pop_t real = REAL(malloc_graph_pop);
    real_malloc_graph_stat_t stat = REAL(malloc_graph_stat);
    uint64_t rogues = stat ? stat(graph, STAT_ROGUES) : 0;
    call_made(ID_malloc_graph_pop);
    int result = real ? real(graph) : 0;
    alloc_step_ends(result == POP_BROKEN, stat && stat(graph, STAT_ROGUES) > rogues);
    return result;
}
