/* Stream capture and graphs: straight calls of the driver. Only captured graphs are simulated;
 * building a graph node by node (cudaGraphAdd*Node) is not, and says so. Several functions have one
 * form for each CUDA major. */
#include "runtime.h"

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    RT_CALL(cu.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    RT_CALL(cu.cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    RT_CALL(cu.cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    RT_CALL(cu.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

static cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                unsigned long long *id, cudaGraph_t *graph,
                                const cudaGraphNode_t **dependencies, const CUgraphEdgeData **edges,
                                size_t *dependency_count) {
    RT_ENTER();
    cuuint64_t driver_id = 0;
    cudaError_t error = rt_result(cu.cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)status,
                                                            id ? &driver_id : NULL, graph,
                                                            dependencies, edges, dependency_count));
    if (id && error == cudaSuccess)
        *id = driver_id;
    return error;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *dependency_count) {
    return capture_info(stream, status, id, graph, dependencies, (const CUgraphEdgeData **)edges,
                        dependency_count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                const cudaGraphEdgeData *edges, size_t count,
                                                unsigned int flags) {
    RT_CALL(cu.cuStreamUpdateCaptureDependencies(stream, dependencies,
                                                 (const CUgraphEdgeData *)edges, count, flags));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies,
                                         cudaGraphEdgeData *edges, size_t *count) {
    RT_CALL(cu.cuGraphNodeGetDependencies(node, dependencies, (CUgraphEdgeData *)edges, count));
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id) {
    return capture_info(stream, status, id, NULL, NULL, NULL, NULL);
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **dependencies,
                                        size_t *dependency_count) {
    return capture_info(stream, status, id, graph, dependencies, NULL, dependency_count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                size_t count, unsigned int flags) {
    RT_CALL(cu.cuStreamUpdateCaptureDependencies(stream, dependencies, NULL, count, flags));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies,
                                         size_t *count) {
    RT_CALL(cu.cuGraphNodeGetDependencies(node, dependencies, NULL, count));
}
#endif

#if CUDART_VERSION >= 12030 && CUDART_VERSION < 13000
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **dependencies,
                                        const cudaGraphEdgeData **edges, size_t *dependency_count) {
    return capture_info(stream, status, id, graph, dependencies, (const CUgraphEdgeData **)edges,
                        dependency_count);
}

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                   cudaGraphNode_t *dependencies,
                                                   const cudaGraphEdgeData *edges, size_t count,
                                                   unsigned int flags) {
    RT_CALL(cu.cuStreamUpdateCaptureDependencies(stream, dependencies,
                                                 (const CUgraphEdgeData *)edges, count, flags));
}

cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t *dependencies,
                                            cudaGraphEdgeData *edges, size_t *count) {
    RT_CALL(cu.cuGraphNodeGetDependencies(node, dependencies, (CUgraphEdgeData *)edges, count));
}
#endif

#if CUDART_VERSION >= 12030
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *edges, size_t count,
                                          enum cudaStreamCaptureMode mode) {
    RT_CALL(cu.cuStreamBeginCaptureToGraph(stream, graph, dependencies,
                                           (const CUgraphEdgeData *)edges, count,
                                           (CUstreamCaptureMode)mode));
}
#endif

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags) {
    RT_CALL(cu.cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    RT_CALL(cu.cuGraphDestroy(graph));
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original) {
    RT_CALL(cu.cuGraphClone(clone, original));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    RT_CALL(cu.cuGraphGetNodes(graph, nodes, count));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    RT_CALL(cu.cuGraphGetRootNodes(graph, nodes, count));
}

/* Driver and runtime number the common node types alike. */
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
    RT_CALL(cu.cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags) {
    RT_CALL(cu.cuGraphDebugDotPrint(graph, path, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags) {
    RT_CALL(cu.cuGraphInstantiateWithFlags(executable, graph, flags));
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 cudaGraphNode_t *error_node, char *log, size_t log_size) {
    if (error_node)
        *error_node = NULL;
    if (log && log_size)
        *log = '\0';
    return cudaGraphInstantiateWithFlags(executable, graph, 0);
}
#endif

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    RT_CALL(cu.cuGraphLaunch(executable, stream));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
    RT_CALL(cu.cuGraphUpload(executable, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    RT_CALL(cu.cuGraphExecDestroy(executable));
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *data, cudaHostFn_t destroy,
                                 unsigned int references, unsigned int flags) {
    RT_CALL(cu.cuUserObjectCreate(object, data, destroy, references, flags));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
    RT_CALL(cu.cuUserObjectRetain(object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
    RT_CALL(cu.cuUserObjectRelease(object, count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags) {
    RT_CALL(cu.cuGraphRetainUserObject(graph, object, count, flags));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count) {
    RT_CALL(cu.cuGraphReleaseUserObject(graph, object, count));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void *value) {
    RT_CALL(cu.cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void *value) {
    RT_CALL(cu.cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
    RT_CALL(cu.cuDeviceGraphMemTrim(device));
}
