/* retry.c: see retry.h. It must not wait for the GPU but where that can give the caller memory. */
#include "govern/retry.h"

#include "govern/cached_handles.h"
#include "govern/decay_thread.h"
#include "govern/trim.h"
#include "track/device.h"
#include "track/recording.h"

/* What the engine keeps for PyTorch, or the driver's pool keeps, would have been enough. */
bool retry_after_oom(uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vm *vm = device ? device_vm(device) : NULL;
    uint64_t given = vm       ? decay_after_oom(device, vm, bytes)
                     : device ? cached_handles_release(device, bytes)
                              : 0;
    return given > 0 || (device && trim_after_oom(device, bytes));
}
