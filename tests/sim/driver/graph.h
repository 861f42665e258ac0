/* Graphs, as far as stream capture makes and cuGraphLaunch replays them. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "pool.h"

/* cuMemAllocAsync and cuMemFreeAsync in a capturing stream: nodes of the graph. */
CUresult graph_allocate(struct stream *stream, size_t bytes, struct block **out);
CUresult graph_free(struct stream *stream, struct block *block);

#endif
