/* driver_calls.h: the driver as `vramgc prove` calls it: looked up when it runs, for the command
 * must start where there is none. It must call the driver's own functions, never a hook's. */
#pragma once

#include "base/base.h"
#include "cuda/cuda_api.h"

/* Those that may be missing are NULL. */
#define PROVE_FUNCTIONS(NEED, MAY)                                                                 \
    NEED(cuInit)                                                                                   \
    NEED(cuDriverGetVersion)                                                                       \
    NEED(cuGetErrorName)                                                                           \
    NEED(cuDeviceGetCount)                                                                         \
    NEED(cuDeviceGet)                                                                              \
    NEED(cuDeviceGetName)                                                                          \
    NEED(cuDeviceGetUuid)                                                                          \
    NEED(cuDeviceGetPCIBusId)                                                                      \
    NEED(cuDeviceGetAttribute)                                                                     \
    NEED(cuDevicePrimaryCtxRetain)                                                                 \
    NEED(cuCtxSetCurrent)                                                                          \
    NEED(cuCtxSynchronize)                                                                         \
    NEED(cuMemAlloc_v2)                                                                            \
    NEED(cuMemFree_v2)                                                                             \
    NEED(cuMemGetInfo_v2)                                                                          \
    NEED(cuMemcpyHtoD_v2)                                                                          \
    NEED(cuMemcpyDtoH_v2)                                                                          \
    NEED(cuMemcpyDtoDAsync_v2)                                                                     \
    NEED(cuMemcpyDtoHAsync_v2)                                                                     \
    NEED(cuMemsetD8_v2)                                                                            \
    NEED(cuMemsetD8Async)                                                                          \
    NEED(cuMemsetD32_v2)                                                                           \
    NEED(cuModuleLoadData)                                                                         \
    NEED(cuModuleGetFunction)                                                                      \
    NEED(cuLaunchKernel)                                                                           \
    NEED(cuStreamCreate)                                                                           \
    NEED(cuStreamDestroy_v2)                                                                       \
    NEED(cuStreamSynchronize)                                                                      \
    NEED(cuStreamQuery)                                                                            \
    NEED(cuStreamBeginCapture_v2)                                                                  \
    NEED(cuStreamEndCapture)                                                                       \
    NEED(cuThreadExchangeStreamCaptureMode)                                                        \
    NEED(cuGraphDestroy)                                                                           \
    NEED(cuGraphLaunch)                                                                            \
    NEED(cuGraphExecDestroy)                                                                       \
    NEED(cuEventCreate)                                                                            \
    NEED(cuEventDestroy_v2)                                                                        \
    NEED(cuEventRecord)                                                                            \
    NEED(cuEventQuery)                                                                             \
    NEED(cuMemAddressReserve)                                                                      \
    NEED(cuMemAddressFree)                                                                         \
    NEED(cuMemCreate)                                                                              \
    NEED(cuMemRelease)                                                                             \
    NEED(cuMemMap)                                                                                 \
    NEED(cuMemUnmap)                                                                               \
    NEED(cuMemSetAccess)                                                                           \
    NEED(cuMemGetAllocationGranularity)                                                            \
    MAY(cuCtxRecordEvent)                                                                          \
    MAY(cuDeviceCanAccessPeer)                                                                     \
    MAY(cuGraphInstantiateWithFlags)                                                               \
    MAY(cuMemAllocAsync)                                                                           \
    MAY(cuMemcpyPeer)                                                                              \
    MAY(cuDevicePrimaryCtxRelease_v2)                                                              \
    MAY(cuCheckpointProcessGetState)                                                               \
    MAY(cuCheckpointProcessLock)                                                                   \
    MAY(cuCheckpointProcessCheckpoint)                                                             \
    MAY(cuCheckpointProcessRestore)                                                                \
    MAY(cuCheckpointProcessUnlock)

/* In a function that gives the first error. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult try_result = (call);                                                              \
        if (try_result != CUDA_SUCCESS)                                                            \
            return try_result;                                                                     \
    } while (0)

struct prove_driver {
#define MEMBER(symbol) __typeof__(&symbol) symbol;
    PROVE_FUNCTIONS(MEMBER, MEMBER)
#undef MEMBER
};

extern struct prove_driver cu;

/* Opens libcuda.so.1 and finds its functions, also for the page engine. NULL, or in one line what
 * is missing. Calls nothing of the driver. */
const char *driver_load(void);

/* A function of the driver by its name; NULL: it has none. */
void *driver_symbol(const char *symbol);

/* Is it the simulated device, and how many wrong uses has that reported so far? */
bool driver_is_simulated(void);
unsigned long driver_errors(void);

/* Context of the device in the calling thread, made where it is the first. */
CUresult driver_open(int device);
CUresult driver_bind(void);
CUcontext driver_context(void);
int driver_device(void);

const char *driver_error_name(CUresult result);
