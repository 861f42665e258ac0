/* room.c: see room.h. It must not be asked by a wrapper of cuMemAlloc, which it calls: the first
 * bytes of that are what comfy-aimdo has rewritten. */
#include "hook/room.h"

#include "cuda/capture_mode.h"
#include "govern/torch.h"
#include "hook/hook.h"

bool room_make(uint64_t bytes) {
    CUdeviceptr p = 0;
    if (!torch_has_aimdo())
        return false;
    CUstreamCaptureMode mode = capture_mode_relax();
    struct hook_state before = hook_state;
    hook_state = (struct hook_state){.depth = 1}; /* what the weights release counts, this not */
    bool made = cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS && cuMemFree_v2(p) == CUDA_SUCCESS;
    hook_state = before;
    capture_mode_set(mode);
    return made;
}
