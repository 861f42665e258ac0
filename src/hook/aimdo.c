/* aimdo.c: comfy-aimdo, ComfyUI's DynamicVRAM, records the allocations of a model's step and
 * replays them. Of each part it tells how many tensors outlived it ("rogues"), and whether it went
 * as recorded, but no names. It must not ask aimdo what its Python does not. */
#include "hook/hook.h"
#include "track/alloc.h"

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
