/* park_driver.c: see park_driver.h. It must make no context: that would take memory of the card. */
#include "prove/park_driver.h"

#include "cuda/cuda_api.h"
#include "vm/version.h"

#include <dlfcn.h>
#include <stdio.h>

#if CUDA_VERSION < 12080
#error "vramgc park needs the headers of CUDA 12.8 or newer"
#endif

#define FUNCTIONS(X)                                                                               \
    X(cuInit)                                                                                      \
    X(cuGetErrorName)                                                                              \
    X(cuDriverGetVersion)                                                                          \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetUuid)                                                                             \
    X(cuCheckpointProcessGetState)                                                                 \
    X(cuCheckpointProcessLock)                                                                     \
    X(cuCheckpointProcessCheckpoint)                                                               \
    X(cuCheckpointProcessRestore)                                                                  \
    X(cuCheckpointProcessUnlock)

static struct {
#define MEMBER(symbol) __typeof__(symbol) *symbol;
    FUNCTIONS(MEMBER)
#undef MEMBER
} cu;

static const char *name_of(CUresult result) {
    const char *name = NULL;
    if (result == CUDA_SUCCESS)
        return NULL;
    return cu.cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

const char *park_driver_open(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "no NVIDIA driver here: libcuda.so.1 cannot be loaded";
#define FIND(symbol)                                                                               \
    if (!(cu.symbol = (__typeof__(symbol) *)dlsym(library, #symbol)))                              \
        return "the driver cannot park: that takes 570 or a newer one";
    FUNCTIONS(FIND)
#undef FIND
    return name_of(cu.cuInit(0));
}

const char *park_objection(enum park_proof proof) {
    static const char *const words[] = {
        [PARK_UNTRIED] = "this driver has not been tried: `vramgc prove` does, a minute",
        [PARK_REFUTED] = "`vramgc prove` found that this driver does not park",
    };
    return proof == PARK_PROVEN ? NULL : words[proof];
}

static enum park_proof proof_of(CUdevice device, int version) {
    struct proof_key key;
    CUuuid uuid;
    if (cu.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS)
        return PARK_UNTRIED;
    proof_key(uuid.bytes, version, VM_VERSION, &key);
    return proof_look(&key).park;
}

enum park_proof park_proof(void) {
    enum park_proof worst = PARK_PROVEN;
    int count = 0, version = 0;
    if (cu.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
        cu.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return PARK_UNTRIED;
    for (int i = 0; i < count; i++) {
        CUdevice device = 0;
        cu.cuDeviceGet(&device, i);
        enum park_proof one = proof_of(device, version);
        worst = one > worst ? one : worst;
    }
    return worst;
}

enum park_state park_state_of(uint64_t pid) {
    CUprocessState state = CU_PROCESS_STATE_RUNNING;
    CUresult result = cu.cuCheckpointProcessGetState((int)pid, &state);
    return result == CUDA_SUCCESS ? (enum park_state)state : PARK_UNKNOWN;
}

const char *park_lock(uint64_t pid, unsigned timeout_ms) {
    CUcheckpointLockArgs arguments = {.timeoutMs = timeout_ms};
    return name_of(cu.cuCheckpointProcessLock((int)pid, &arguments));
}

const char *park_checkpoint(uint64_t pid) {
    CUcheckpointCheckpointArgs arguments = {0};
    return name_of(cu.cuCheckpointProcessCheckpoint((int)pid, &arguments));
}

const char *park_restore(uint64_t pid) {
    CUcheckpointRestoreArgs arguments = {0};
    return name_of(cu.cuCheckpointProcessRestore((int)pid, &arguments));
}

const char *park_unlock(uint64_t pid) {
    CUcheckpointUnlockArgs arguments = {0};
    return name_of(cu.cuCheckpointProcessUnlock((int)pid, &arguments));
}
