/* retry.c: see retry.h. It must not wait for the GPU but where that can give the caller memory. */
#include "govern/retry.h"

#include "govern/cached_handles.h"
#include "govern/decay_thread.h"
#include "govern/peer_programs.h"
#include "govern/trim.h"
#include "track/capture.h"
#include "track/device.h"
#include "track/recording.h"
#include "track/thread.h"

/* What the engine keeps for PyTorch, or the driver's pool keeps, would have been enough. */
bool retry_after_oom(uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vm *vm = device ? device_vm(device) : NULL;
    uint64_t given = vm       ? decay_after_oom(device, vm, bytes)
                     : device ? cached_handles_release(device, bytes)
                              : 0;
    return given > 0 || (device && trim_after_oom(device, bytes));
}

/* PyTorch will empty its own cache first, and ask once more. */
static bool will_ask_again(const struct device *device, bool allocator) {
    return allocator && !oom_is_open() && !capture_active() && device_releasable_bytes(device) > 0;
}

bool retry_on_full_card(uint64_t bytes, bool allocator) {
    bool own = retry_after_oom(bytes);
    struct device *device = recording_is_on() ? device_current() : NULL;
    bool last = device && MUTANT(peers_before_own, !will_ask_again(device, allocator), true);
    return (last && peers_after_oom(device, bytes)) || own;
}

bool retry_beyond_engine(struct device *device, uint64_t bytes) {
    return device && (MUTANT(driver_pool_kept, trim_after_oom(device, bytes), false) ||
                      peers_after_oom(device, bytes));
}
