/* api.h: how a fragment of a test calls CUDA. CALL(cudaMalloc)(...) is a direct, linked call
 * where DIRECT is defined; else it goes through a pointer that the route under test got hold of.
 * CALL is for what hooks.def lists, MORE for the rest. */
#ifndef API_H
#define API_H

#include "cuda/cuda_api.h"

/* Further functions that the fragments need; the first argument is the library. */
#define FURTHER_RUNTIME(X)                                                                         \
    X(CUDART, cudaError_t, cudaSetDevice, (int d), (d))                                            \
    X(CUDART, cudaError_t, cudaStreamSynchronize, (cudaStream_t s), (s))                           \
    X(CUDART, cudaError_t, cudaDeviceSynchronize, (void), ())                                      \
    X(CUDART, cudaError_t, cudaMemcpy,                                                             \
      (void *to, const void *from, size_t n, enum cudaMemcpyKind kind), (to, from, n, kind))       \
    X(CUDART, cudaError_t, cudaMemsetAsync, (void *p, int value, size_t n, cudaStream_t s),        \
      (p, value, n, s))                                                                            \
    X(CUDART, cudaError_t, cudaGraphLaunch, (cudaGraphExec_t g, cudaStream_t s), (g, s))           \
    X(CUDART, cudaError_t, cudaEventCreate, (cudaEvent_t * e), (e))                                \
    X(CUDART, cudaError_t, cudaGraphCreate, (cudaGraph_t * g, unsigned f), (g, f))                 \
    X(CUDART, cudaError_t, cudaGraphDestroy, (cudaGraph_t g), (g))                                 \
    X(CUDART, cudaError_t, cudaGraphInstantiateWithFlags,                                          \
      (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long f), (e, g, f))                       \
    X(CUDART, cudaError_t, cudaGraphExecDestroy, (cudaGraphExec_t e), (e))                         \
    X(CUDART, cudaError_t, cudaDeviceGetDefaultMemPool, (cudaMemPool_t * q, int d), (q, d))
#define FURTHER_DRIVER(X)                                                                          \
    X(CUDA, CUresult, cuCtxSetCurrent, (CUcontext c), (c))                                         \
    X(CUDA, CUresult, cuCtxGetCurrent, (CUcontext * c), (c))                                       \
    X(CUDA, CUresult, cuCtxPushCurrent_v2, (CUcontext c), (c))                                     \
    X(CUDA, CUresult, cuStreamSynchronize, (CUstream s), (s))                                      \
    X(CUDA, CUresult, cuGraphCreate, (CUgraph * g, unsigned f), (g, f))                            \
    X(CUDA, CUresult, cuGraphDestroy, (CUgraph g), (g))                                            \
    X(CUDA, CUresult, cuMemPoolCreate, (CUmemoryPool * q, const CUmemPoolProps *p), (q, p))        \
    X(CUDA, CUresult, cuArrayDestroy, (CUarray a), (a))

#define C10_ONLY(library, result, symbol, parameters, arguments)
#define POINTER(library, result, symbol, parameters, arguments) result(*symbol) parameters;

/* One pointer for each function of hooks.def and of the lists above. */
struct api {
#define HOOK POINTER
#define PASS POINTER
#define NEED C10_ONLY
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED
};

/* Those of the lists above: apart, because any of them may get a hook one day. */
struct further {
    FURTHER_RUNTIME(POINTER)
    FURTHER_DRIVER(POINTER)
};

#ifdef DIRECT
/* Weak, because older runtimes lack some: such a name is then bound to whoever has it. */
#define HOOK(library, result, symbol, parameters, arguments)                                       \
    extern result symbol parameters __attribute__((weak));
#define PASS HOOK
#define NEED C10_ONLY
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED
#define CALL(symbol) symbol
#define MORE(symbol) symbol
#else
extern struct api api;
extern struct further further;
#define CALL(symbol) api.symbol
#define MORE(symbol) further.symbol
#endif

#define CALL_IF_THERE(symbol, ...) (CALL(symbol) ? CALL(symbol)(__VA_ARGS__) : CUDA_SUCCESS)

/* The fragments: each exercises some hooks and checks what they counted. */
void runtime_fragments(void);
void driver_fragments(void);

#endif
