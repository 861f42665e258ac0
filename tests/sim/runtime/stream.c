/* Streams and events: straight calls of the driver, which queues the work and runs it late. */
#include "runtime.h"

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
    RT_CALL(cu.cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    RT_CALL(cu.cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    RT_CALL(cu.cuStreamSynchronize(stream));
}

/* cudaErrorNotReady is recorded as the last error too: PyTorch clears it after such an answer. */
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    RT_CALL(cu.cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    RT_CALL(cu.cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    RT_CALL(cu.cuStreamGetPriority(stream, priority));
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags) {
    RT_CALL(cu.cuStreamGetFlags(stream, flags));
}

#if CUDART_VERSION >= 12000
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
    RT_CALL(cu.cuStreamGetId(stream, id));
}
#endif

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
    RT_CALL(cu.cuStreamGetDevice(stream, device));
}
#endif

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                  unsigned int flags) {
    /* The two callback types differ in the names of the stream and error types only. */
    RT_CALL(
        cu.cuStreamAddCallback(stream, (CUstreamCallback)(void (*)(void))callback, data, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    RT_CALL(cu.cuLaunchHostFunc(stream, function, data));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    RT_CALL(cu.cuEventCreate(event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    RT_CALL(cu.cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    RT_CALL(cu.cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    RT_CALL(cu.cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    RT_CALL(cu.cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    RT_CALL(cu.cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    RT_CALL(cu.cuEventElapsedTime(milliseconds, start, end));
}
