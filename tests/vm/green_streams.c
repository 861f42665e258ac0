/* green_streams.c: preloaded in front of libvramgc.so it makes PyTorch's streams in a green
 * context, a part of the card's processors. It must not be in the way of other calls. */
#include <cuda.h>
#include <dlfcn.h>

int cudaStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);

int cudaStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    CUresult (*create)(CUstream *, CUgreenCtx, unsigned, int);
    *(void **)&create = dlsym(RTLD_DEFAULT, "cuGreenCtxStreamCreate");
    return create ? (int)create(stream, NULL, flags, priority) : (int)CUDA_ERROR_NOT_SUPPORTED;
}
